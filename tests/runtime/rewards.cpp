#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "config/strict_json.hpp"
#include "runtime/reward.hpp"

using namespace millrace;
using doctest::Approx;

namespace {

const std::string directory = std::string(MILLRACE_SOURCE_DIR) + "/config/rewards";

RewardSpec shipped(const std::string& name) {
  auto spec = load_reward_spec(directory, name);
  REQUIRE_MESSAGE(spec, spec.error().message);
  return *spec;
}

RewardSpec spec_of(const std::string& part) {
  const auto document = parse_json(R"({"name": "test", "parts": [)" + part + "]}", "test");
  REQUIRE_MESSAGE(document, document.error().message);
  auto spec = RewardSpec::parse(*document);
  REQUIRE_MESSAGE(spec, spec.error().message);
  return *spec;
}

std::string error_of(const std::string& text) {
  const auto document = parse_json(text, "test");
  REQUIRE_MESSAGE(document, document.error().message);
  const auto spec = RewardSpec::parse(*document);
  return spec ? "no error" : spec.error().message;
}

std::string error_of_part(const std::string& part) { return error_of(R"({"name": "test", "parts": [)" + part + "]}"); }

}  // namespace

TEST_CASE("every shipped spec parses and bears its file's name") {
  const auto names = list_reward_specs(directory);
  CHECK(names == std::vector<std::string>{"chuunibyou", "classical", "cute", "environment", "exact_answer", "vowels"});
  for (const std::string& name : names) CHECK(shipped(name).name() == name);
}

TEST_CASE("style words: 1 - exp(-n / 2) for n distinct ones") {
  const RewardSpec spec = shipped("chuunibyou");
  const auto style = [&](const std::string& answer) { return spec.score(answer, "").parts[0].value; };
  CHECK(style("A cat sat.") == 0.0);
  CHECK(style("Behold!") == Approx(0.3934693403));             // n = 1
  CHECK(style("DARK, dark... Dark") == Approx(0.3934693403));  // the same word counts once
  CHECK(style("the eye-of chaos") == Approx(0.6321205588));    // n = 2: split at the hyphen
  CHECK(style("darkening") == 0.0);                            // whole words only
  CHECK(style("dark's") == 0.0);                               // an apostrophe is part of its word
  CHECK(style("dark darkness power") == Approx(0.7768698399));
}

TEST_CASE("style words with apostrophes, and symbols by presence") {
  const RewardSpec classical = shipped("classical"), cute = shipped("cute");
  CHECK(classical.score("O'er the sweet'st morn", "").total == Approx(1 - std::exp(-1.5)));
  CHECK(classical.score("oer sweetst", "").total == 0.0);
  CHECK(cute.score("wow!~", "").total == Approx(1 - std::exp(-1.5)));
  CHECK(cute.score("a!b!!c", "").total == Approx(1 - std::exp(-0.5)));
}

TEST_CASE("repetition costs what lies above 0.4") {
  const RewardSpec spec = shipped("chuunibyou");
  // 1 distinct of 10 words: repetition 0.9, 0.5 of it counts.
  const Score ten = spec.score("a a a a a a a a a a", "");
  REQUIRE(ten.parts.size() == 2);
  CHECK(ten.parts[1].name == "repetition");
  CHECK(ten.parts[1].value == Approx(0.5));
  CHECK(ten.parts[1].weight == -1.0);
  CHECK(ten.total == Approx(-0.5));
  // 3 distinct of 5: repetition 0.4, free. "Dark" and "dark" are one word.
  CHECK(spec.score("Dark dark a b a", "").parts[1].value == Approx(0.0));
  // 2 distinct of 4: 0.5, one style word.
  CHECK(spec.score("fire fire a a", "").total == Approx(0.3934693403 - 0.1));
  CHECK(spec.score("", "").total == 0.0);
  CHECK(spec.score("12 !? 34", "").total == 0.0);  // no words at all
}

TEST_CASE("the total is the weighted sum of the parts") {
  const RewardSpec spec = spec_of(R"({"name": "a", "kind": "letter_share", "weight": 2, "letters": "a"},
                                     {"name": "b", "kind": "letter_share", "weight": -0.5, "letters": "bc"})");
  const Score score = spec.score("abca", "");
  CHECK(score.total == Approx(2 * 0.5 - 0.5 * 0.5));
  CHECK(score.spec == "test");
  CHECK(score.spec_version == 0);
}

TEST_CASE("letter share") {
  const RewardSpec spec = shipped("vowels");
  CHECK(spec.score("aeiou", "").total == 1.0);
  CHECK(spec.score("abcd", "").total == 0.25);
  CHECK(spec.score("AEI", "").total == 0.0);                    // capitals are other letters
  CHECK(spec.score("a\xc3\xa9", "").total == Approx(1.0 / 3));  // of bytes
  CHECK(spec.score("", "").total == 0.0);
}

TEST_CASE("exact answer: the last number, as a value") {
  const RewardSpec spec = shipped("exact_answer");
  const auto right = [&](const std::string& answer, const std::string& expected_answer) {
    CAPTURE(answer);
    return spec.score(answer, expected_answer).total == 1.0;
  };
  CHECK(right("84", "84"));
  CHECK(right("12 * 7 is 84.", "84"));
  CHECK(right("84.0", "84"));
  CHECK(right("It costs $1,234.50", "1234.5"));
  CHECK(right("x = -2.", "-2"));
  CHECK(right("+7", "7"));
  CHECK(right("8.4e1", "84"));
  CHECK(right(".5", "0.5"));
  CHECK(right("3-2", "2"));
  CHECK(right("0", "-0"));
  CHECK(!right("84 or 85", "84"));
  CHECK(!right("-84", "84"));
  CHECK(!right("184", "84"));
  CHECK(!right("no idea", "84"));
  CHECK(!right("", "84"));
  CHECK(!right("1,23", "123"));  // a list, not a thousands separator
  CHECK(!right("1e999", "84"));
}

TEST_CASE("exact answer: the last line where the right answer is no number") {
  const RewardSpec spec = shipped("exact_answer");
  CHECK(spec.score("I think:\n  Paris \n\n", " Paris").total == 1.0);
  CHECK(spec.score("Paris\nRome", "Paris").total == 0.0);
  CHECK(spec.score("It is Paris", "Paris").total == 0.0);
  CHECK(spec.score("", "").total == 0.0);  // a task without a right answer
  CHECK(spec.score("anything", "").total == 0.0);
}

TEST_CASE("a spec is read strictly") {
  CHECK(error_of("[]").find("expected an object") != std::string::npos);
  CHECK(error_of(R"({"name": "x", "part": []})") == "unknown key \"part\": did you mean \"parts\"?");
  CHECK(error_of(R"({"parts": []})").find("\"name\": expected") == 0);
  CHECK(error_of(R"({"name": "../x", "parts": []})").find("\"name\": expected") == 0);
  CHECK(error_of(R"({"name": "x", "parts": []})") == "\"parts\": expected a list of parts, at least one");
  CHECK(error_of(R"({"name": "x"})") == "\"parts\": expected a list of parts, at least one");

  CHECK(error_of_part("1").find("\"parts[0]\": expected an object") == 0);
  CHECK(error_of_part(R"({"name": "a", "kind": "styl_words", "weight": 1, "words": ["a"]})") ==
        "\"parts[0]\": \"kind\" is \"styl_words\": did you mean \"style_words\"?");
  CHECK(error_of_part(R"({"name": "a", "weight": 1})").find("\"kind\": expected") != std::string::npos);
  CHECK(error_of_part(R"({"name": "a", "kind": "exact_answer", "wieght": 1})") ==
        "\"parts[0]\": unknown key \"wieght\": did you mean \"weight\"?");
  CHECK(error_of_part(R"({"name": "a", "kind": "exact_answer", "weight": 1, "above": 0.4})").find("unknown key") !=
        std::string::npos);
  CHECK(error_of_part(R"({"name": "a", "kind": "exact_answer"})").find("\"weight\" is missing") != std::string::npos);
  for (const char* weight : {"\"1\"", "null", "1e7", "-1e7", "true"}) {
    CAPTURE(weight);
    CHECK(error_of_part(std::string(R"({"name": "a", "kind": "exact_answer", "weight": )") + weight + "}")
              .find("expected a number from -1e6 to 1e6") != std::string::npos);
  }
  CHECK(error_of_part(R"({"name": "a", "kind": "exact_answer", "weight": 1},
                         {"name": "a", "kind": "exact_answer", "weight": 1})") ==
        "\"parts[1]\": \"name\" \"a\" stands twice");
}

TEST_CASE("the keys of each kind are read strictly") {
  const auto words = [](const std::string& list) {
    return error_of_part(R"({"name": "a", "kind": "style_words", "weight": 1, "words": )" + list + "}");
  };
  CHECK(words(R"(["dark", "o'er", "!", "♪"])") == "no error");
  for (const char* list : {R"(["Dark"])", R"(["two words"])", R"([""])", R"([1])", R"(["semi-colon"])"}) {
    CAPTURE(list);
    CHECK(words(list).find("expected one lower-case word") != std::string::npos);
  }
  CHECK(words(R"(["a", "b", "a"])").find("stands twice") != std::string::npos);
  CHECK(words("[]").find("at least one") != std::string::npos);
  CHECK(words("\"dark\"").find("expected a list") != std::string::npos);

  const auto above = [](const std::string& value) {
    return error_of_part(R"({"name": "a", "kind": "repetition", "weight": 1, "above": )" + value + "}");
  };
  CHECK(above("0") == "no error");
  CHECK(above("-0.1") == "\"parts[0]\": \"above\" is -0.1: expected a number from 0 to 1");
  CHECK(above("1.1").find("from 0 to 1") != std::string::npos);
  CHECK(above("\"0\"").find("from 0 to 1") != std::string::npos);
  CHECK(error_of_part(R"({"name": "a", "kind": "repetition", "weight": 1})").find("\"above\" is missing") !=
        std::string::npos);

  const auto letters = [](const std::string& value) {
    return error_of_part(R"({"name": "a", "kind": "letter_share", "weight": 1, "letters": )" + value + "}");
  };
  CHECK(letters("\"xyz\"") == "no error");
  for (const char* value : {"\"\"", "1", "\"é\"", "[\"a\"]"}) {
    CAPTURE(value);
    CHECK(letters(value).find("expected a text of ASCII letters") != std::string::npos);
  }
}

TEST_CASE("a spec that is not there is an error that names the nearest one") {
  CHECK(load_reward_spec(directory, "chunibyou").error().message ==
        "\"reward.spec\": no chunibyou.json in " + directory + ": did you mean \"chuunibyou\"?");
  CHECK(!load_reward_spec(directory, "../presets/tiny"));
  CHECK(!load_reward_spec(directory, ""));
  CHECK(load_reward_spec("/nowhere", "cute").error().message.find("holds no reward specs") != std::string::npos);
  CHECK(list_reward_specs("/nowhere").empty());
}

TEST_CASE("any bytes get a finite score") {
  std::vector<RewardSpec> specs;
  for (const std::string& name : list_reward_specs(directory)) specs.push_back(shipped(name));
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string answer(random() % 64, ' '), expected_answer(random() % 8, ' ');
    // Every other round only what numbers are made of.
    const std::string alphabet = "0123456789.,+-eE \n";
    const auto byte = [&] { return round % 2 ? alphabet[random() % alphabet.size()] : static_cast<char>(random()); };
    for (char& c : answer) c = byte();
    for (char& c : expected_answer) c = byte();
    for (const RewardSpec& spec : specs) CHECK(std::isfinite(spec.score(answer, expected_answer).total));
  }
  CHECK(std::isfinite(specs[0].score(std::string(1000000, 'a'), "").total));
}
