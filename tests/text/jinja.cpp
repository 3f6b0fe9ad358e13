#include "models/text/jinja/template.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace millrace::jinja {
namespace {

std::string render(const std::string& source, const std::string& variables = "{}") {
  const auto parsed = Template::parse(source);
  if (!parsed) return "REFUSED " + parsed.error().message;
  std::vector<std::pair<std::string, Value>> values;
  const auto json = nlohmann::ordered_json::parse(variables);
  for (const auto& [name, value] : json.items()) {
    values.emplace_back(name, value_of(value, MarkedText::quoted));
  }
  const auto text = parsed->render(values);
  return text ? text->text : "FAILED " + text.error().message;
}

// All that follows was rendered by jinja2 3.1.6 as transformers sets it up.
TEST_CASE("white space around tags") {
  CHECK(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc");
  CHECK(render("a \n {%- if true -%} \n b {%- endif %} c") == "ab c");
  CHECK(render("  {{ 1 }}  \n  {{- 2 -}}  \n3") == "  123");
  CHECK(render("a\n  {#- note #}\n b {# note #} c") == "a b  c");
  CHECK(render("{% set x = 1 +%}\n{{ x }}\n\n") == "\n1\n");
  CHECK(render("a {%+ if true %}b{% endif %}") == "a b");
  CHECK(render("x{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}") == "x}}1");
}

TEST_CASE("expressions") {
  CHECK(render("{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }}") ==
        "6 1 -4 2 3.5 8");
  CHECK(render("{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }} {{ 'a' 'b' + \"c\" }}") == "a1NoneTrue1.0 abc");
  CHECK(render("{{ 1 < 2 <= 2 }} {{ 'a' in 'abc' }} {{ 3 not in [1, 2] }} {{ not 1 == 2 }}") == "True True True True");
  CHECK(render("{{ 'x' if false }}|{{ 'x' if 0 else 'y' }}|{{ none or 'z' }}|{{ '' and 'w' }}") == "|y|z|");
  CHECK(render("{{ [1, 'a', none, {'k': (1,)}] }} {{ (1, 2) }} {{ () }}") == "[1, 'a', None, {'k': (1,)}] (1, 2) ()");
  CHECK(render("{{ 'äöü'[1] }}{{ 'äöü'[::-1] }}{{ [1, 2, 3][1:] }}{{ [1, 2, 3][-1] }}{{ 'abc'[:2] }}") ==
        "öüöä[2, 3]3ab");
  CHECK(render("{{ a.b }}{{ a['b'] }}{{ a.c }}{{ a.c is defined }}", R"({"a": {"b": 5}})") == "55False");
  CHECK(render("{{ -1|abs }} {{ 1 is odd and 2 is even }} {{ 5 is divisibleby 5 }}").starts_with("REFUSED"));
  CHECK(render("{{ a.items is callable }}{{ a['items'] }}", R"({"a": {"items": 1}})") == "True1");
  CHECK(render("{{ 1e5 }}").starts_with("REFUSED"));
  // A sum leaves its parts as they were.
  CHECK(render("{% set b = a %}{% set c = a + 'y' + b %}{{ a }}{{ b }}{{ c }}{{ 'k' + a }}"
               "{% for x in [1, 2] %}{{ 'k' + a }}{% endfor %}",
               R"({"a": "x"})") == "xxxyxkxkxkx");
  CHECK(render(R"({{ 'a\n\t\x41\u00e4\'\q' }})") == "a\n\tA\u00e4'\\q");
}

TEST_CASE("statements") {
  CHECK(render("{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}"
               "{% endfor %}") == "1/2:1,2/2:3");
  CHECK(render("{% for k, v in d.items() %}{{ k }}={{ v }};{% else %}none{% endfor %}", R"({"d": {"b": 1, "a": 2}})") ==
        "b=1;a=2;");
  CHECK(render("{% for x in [] %}x{% else %}none{% endfor %}") == "none");
  CHECK(render("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}") == "231");
  CHECK(render("{% set ns = namespace(x=0) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}") ==
        "3");
  CHECK(
      render("{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, b=3) }} {{ f(b=1, a=2)|upper }}") ==
      "1-2 1-3 2-1");
  CHECK(render("{% macro f(a) %}({{ 'k' + a }}){% endmacro %}{{ 'a' + f('b') + 'c' }}{% set t %}{{ 'd' + f('e') }}"
               "{% endset %}{{ t }}") == "a(kb)cd(ke)");
  CHECK(render("{% set t %}a{{ 1 }}{% endset %}{{ t }}{{ t }}") == "a1a1");
  CHECK(render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}"
               "{% endfor %}") == "02");
  CHECK(render("{% generation %}x{% endgeneration %}") == "x");
  CHECK(render("{% for a in [1, 2] %}{{ loop.previtem is defined }}{{ loop.nextitem }}{% endfor %}") == "False2True");
  CHECK(render("{% set a, b = 1, 2 %}{{ b }}{{ a }}") == "21");
}

TEST_CASE("filters and methods") {
  CHECK(render("{{ '  a b '|trim }}|{{ 'xxaxx'.strip('x') }}|{{ ' a'.lstrip() }}|{{ 'a '.rstrip() }}") == "a b|a|a|a");
  CHECK(render("{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1)[1] }} {{ ' a  b '.split() }}") ==
        "['a', 'b', 'c'] b,c ['a', 'b']");
  CHECK(render("{{ v|tojson }}", R"({"v": {"b": [1, 2.5, null, true], "a": "ä\"<\n"}})") ==
        R"({"b": [1, 2.5, null, true], "a": "ä\"<\n"})");
  CHECK(render("{{ v|tojson(indent=2) }}", R"({"v": {"b": [1], "c": {}}})") ==
        "{\n  \"b\": [\n    1\n  ],\n  \"c\": {}\n}");
  CHECK(render("{{ v|tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}",
               R"({"v": {"b": "ä🌶", "a": 1}})") == R"({"a":1,"b":"\u00e4\ud83c\udf36"})");
  CHECK(render("{{ [1, 2]|join('-') }}{{ []|join }}{{ [{'a': 1}, {'a': 2}]|map(attribute='a')|list }}") == "1-2[1, 2]");
  CHECK(render("{{ x|default('d') }}{{ ''|default('e', true) }}{{ 'äb'|length }}{{ 'ab'|replace('a', 'c')|upper }}") ==
        "de2CB");
  CHECK(render("{{ [1, 2, 3]|select('odd')|list }}{{ [1, 2]|reject('equalto', 1)|list }}{{ ['b', 'A']|sort }}") ==
        "[1, 3][2]['A', 'b']");
  CHECK(render("{{ {'b': 1, 'a': 2}|dictsort }}{{ {'a': 1}|items|list }}{{ 'aBC'|capitalize }}") ==
        "[('a', 2), ('b', 1)][('a', 1)]Abc");
  CHECK(render("{{ 'it\\'s' ~ ['it\\'s', 'a\\n'] }}") == "it's[\"it's\", 'a\\n']");
  CHECK(render("{{ '1 2'|int }} {{ '42'|int }} {{ 3.9|int }} {{ '1.5'|float }} {{ 1e0 }}").starts_with("REFUSED"));
  CHECK(render("{{ '42'|int + 1 }} {{ 3.9|int }} {{ '1.5'|float }} {{ 'x'|int(7) }}") == "43 3 1.5 7");
  CHECK(render("{{ 'abc'.startswith(('x', 'ab')) }} {{ 'abc'.endswith('bc') }} {{ 'aXbX'.find('X') }}") ==
        "True True 1");
}

TEST_CASE("what is unknown is refused with its line, when the template is read") {
  CHECK(render("\n{{ x|frobnicate }}") == "REFUSED line 2: the filter \"frobnicate\" is not supported");
  CHECK(render("{{ x is odder }}") == "REFUSED line 1: the test \"odder\" is not supported");
  CHECK(render("{% block a %}{% endblock %}") == "REFUSED line 1: the tag {% block %} is not supported");
  CHECK(render("{% if x %}") == "REFUSED line 1: {% endif %} is missing");
  CHECK(render("{% endif %}") == "REFUSED line 1: nothing is open that {% endif %} could end");
  CHECK(render("{{ 'a }}") == "REFUSED line 1: the string that begins in line 1 has no end");
  CHECK(render("{{ f(*a) }}") == "REFUSED line 1: unpacked arguments are not supported");
  CHECK(render("{{ (1 }}").starts_with("REFUSED"));
  CHECK(render("{# x").starts_with("REFUSED"));
  CHECK(render("{{ x ").starts_with("REFUSED"));
  CHECK(render("{% for x in y recursive %}{% endfor %}") == "REFUSED line 1: recursive loops are not supported");
  CHECK(render("{{ " + std::string(9999, '(') + "1" + std::string(9999, ')') + " }}") ==
        "REFUSED line 1: it is nested too deeply");
}

TEST_CASE("what Python would refuse fails with its line") {
  CHECK(render("\n\n{{ raise_exception('no') }}") == "FAILED line 3: no");
  CHECK(render("{{ x.y }}") == "FAILED line 1: 'x' is undefined");
  CHECK(render("{{ x + 'a' }}") == "FAILED line 1: 'x' is undefined");
  CHECK(render("{{ 'a' + 1 }}") == "FAILED line 1: \"+\" is not supported between a str and a int");
  CHECK(render("{{ 'a'.zfill(3) }}") == "FAILED line 1: str.zfill() is not supported");
  CHECK(render("{{ [].append(1) }}") == "FAILED line 1: list.append() is not supported");
  CHECK(render("{% for x in 5 %}{% endfor %}") == "FAILED line 1: a int has no items to go through");
  CHECK(render("{{ 5[1:] }}") == "FAILED line 1: a int has no slices");
  CHECK(render("{{ 1 // 0 }}").starts_with("FAILED"));
  CHECK(render("{{ 'a'|trim('b', 'c') }}") == "FAILED line 1: filter \"trim\" takes 2 arguments, not 3");
}

TEST_CASE("a template ends, and does not fill the memory") {
  CHECK(render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}") ==
        "FAILED line 1: the template takes too long");
  CHECK(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}") ==
        "FAILED line 1: macros call each other too deeply");
  CHECK(render(
            "{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}") ==
        "FAILED line 1: the text grows beyond 64 MiB");
  const std::string deep = "FAILED line 1: values are nested too deeply";
  CHECK(render("{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}") == deep);
  CHECK(render("{% set ns = namespace() %}{% for a in range(9999) %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}") ==
        deep);
  CHECK_THROWS_AS(
      value_of(nlohmann::ordered_json::parse(std::string(9999, '[') + std::string(9999, ']')), MarkedText::quoted),
      Failure);
  CHECK(render("{{ range(1000000) }}") == "FAILED line 1: range: more than 100000 numbers");
}

TEST_CASE("a text remembers what the conversation wrote") {
  const auto parsed = Template::parse("<{{ x|trim ~ '>' ~ (y|tojson) }}").value();
  const auto text = parsed.render({{"x", MarkedText(" ab ", MarkedText::quoted)}, {"y", std::int64_t{1}}}).value();
  CHECK(text.text == "<ab>1");
  CHECK(text.marks == std::string("\0\1\1\0\1", 5));
}

}  // namespace
}  // namespace millrace::jinja
