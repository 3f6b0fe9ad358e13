#!/usr/bin/env python3
"""Compares tokenizers and chat templates with Hugging Face's `tokenizers` and with jinja2, on random input.

    pip install tokenizers==0.23.* jinja2==3.1.*        (in a virtual environment)
    tests/fuzz/fuzz_text.py [--rounds 20000] [--seed 0] [--preset asan]

Needs the preset's text_probe (deploy/build release text_probe), which also fetches third_party/.
Tokenizers: Qwen's real vocabulary with the splits of Qwen, GPT-2, Llama 3, SmolLM and DeepSeek, ids and decoded text;
a SentencePiece-like one with byte fallback. Templates: every one of the wheel `trl` over random conversations, and
random expressions. Prints what differs; the exit code says whether anything does.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LETTERS = ["a", "e", "the", " the", "ing", "'s", "'LL", "é", "e\u0301", "ß", "ſ", "мир", "日本", "語", "한", "각", "ا", "क्ष", "ไ",
           "1", "23", "4567", "٣", "½", "Ⅷ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u0085", "\u180e", "\u200b", "\u2028",
           ".", ",", "!?", "_", "“", "€", "🌶", "👩‍💻", "\ufeff", "\x00", "\x1f", "\u0338", "\u0345", "K", "Å", "ﬁ", "\U0001D15E"]
MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>", "<|", "|>", "<think"]


class Probe:
    def __init__(self, preset):
        program = ROOT / f"build/{preset}/tests/text_probe"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Comparison:
    def __init__(self):
        self.compared, self.different, self.refused = {}, 0, {}

    def check(self, what, given, right, mine):
        self.compared[what] = self.compared.get(what, 0) + 1
        if right != mine:
            self.different += 1
            if self.different <= 20:
                print(f"{what}: {given!r}\n   right {right!r}\n   mine  {mine!r}")


def random_text(rng, special):
    pieces = LETTERS + (MARKS if special else [])
    text = "".join(rng.choice(pieces) if rng.random() < 0.9 else chr(rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0xD7FF), rng.randrange(0x10000, 0x1F900)]))
                   for _ in range(rng.randrange(12)))
    return text


def splits(regex):
    return {"type": "Sequence", "pretokenizers": [
        *({"type": "Split", "pattern": {"Regex": r}, "behavior": "Isolated", "invert": False} for r in regex),
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}


def variants(base):
    """tokenizer.json of several families over Qwen's vocabulary, and a small one with byte fallback."""
    yield "qwen", base
    gpt2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    yield "gpt2", base | {"normalizer": None, "pre_tokenizer": gpt2}
    llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    yield "llama3", base | {"normalizer": None, "pre_tokenizer": splits([llama]),
                            "model": base["model"] | {"ignore_merges": True}}
    yield "smollm", base | {"normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, gpt2]}}
    deepseek = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
    yield "deepseek", base | {"normalizer": None, "pre_tokenizer": splits(deepseek)}

    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for text in ["▁", "a", "e", "t", "h", "i", "n", "g", "th", "the", "▁the", "in", "ing", "▁▁", "é", "日", "1", "2", "23"]:
        vocabulary[text] = len(vocabulary)
    # Without a gap: tokenizers 0.23.3 counts on where a file has one, whatever ids that gives.
    added = [dict(token, id=len(vocabulary) + i) for i, token in enumerate(base["added_tokens"])]
    added[3]["lstrip"] = added[4]["rstrip"] = True
    merges = [["t", "h"], ["th", "e"], ["▁", "the"], ["i", "n"], ["in", "g"], ["▁", "▁"], ["2", "3"]]
    model = base["model"] | {"vocab": vocabulary, "merges": [m for m in merges if m != ["2", "3"] or "3" in vocabulary], "byte_fallback": True, "unk_token": None}
    steps = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    normalizer = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    small = base | {"added_tokens": added, "model": model, "decoder": {"type": "Sequence", "decoders": [*steps, strip]}}
    yield "llama2", small | {"normalizer": normalizer, "pre_tokenizer": None}
    for scheme in ("first", "always", "never"):
        space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
        decoder = {"type": "Sequence", "decoders": steps if scheme == "never" else [*steps, strip]}
        yield "metaspace " + scheme, small | {"normalizer": None, "pre_tokenizer": space, "decoder": decoder}


def compare_tokenizers(probe, comparison, rng, rounds):
    base = json.loads((ROOT / "third_party/qwen/tokenizer.json").read_text(encoding="utf-8"))
    for name, file in variants(base):
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as temporary:
            json.dump(file, temporary, ensure_ascii=False)
            temporary.flush()
            right = tokenizers.Tokenizer.from_file(temporary.name)
            loaded = probe.ask(load=temporary.name)
        if "error" in loaded:
            comparison.check("load " + name, name, "", loaded["error"])
            continue
        for _ in range(rounds):
            special = rng.random() < 0.5
            text = random_text(rng, special)
            right.encode_special_tokens = not special
            ids = right.encode(text, add_special_tokens=False).ids
            comparison.check("encode " + name, (text, special), ids, probe.ask(encode=text, special=special)["ids"])
            # Where bytes are no UTF-8, Hugging Face's byte fallback writes one U+FFFD a byte, ours one a character.
            if "\ufffd" not in (decoded := right.decode(ids, skip_special_tokens=True)):
                comparison.check("decode " + name, ids, decoded, probe.ask(decode=ids)["text"])


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def environment():
    """As transformers' chat_template_utils sets Jinja up."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: __import__("datetime").datetime.now().strftime(form)
    return env


def compare_rendering(probe, comparison, env, name, source, variables):
    try:
        right = {"text": env.from_string(source).render(**variables)}
    except Exception as error:  # whatever Python raises
        right = {"error": f"{type(error).__name__}: {error}"}
    mine = probe.ask(render=source, variables=variables)
    if mine.get("error", "").startswith("refused") or "not supported" in mine.get("error", ""):
        comparison.refused[mine["error"]] = comparison.refused.get(mine["error"], 0) + 1
        return
    both = ("error", "error") if "error" in right and "error" in mine else (right, mine)
    comparison.check(name, (source if len(source) < 200 else name, variables), *both)


def random_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 2 else 6)
    if kind < 3:
        return random_text(rng, True)
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 7:
        return {rng.choice(["a", "b", "name", "é"]): random_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return rng.choice([None, True, False, 0, -3, 17, 2.5, 1e20, 1e-7, 0.1])


def random_conversation(rng):
    messages = []
    for _ in range(rng.randrange(1, 6)):
        role = rng.choice(["system", "user", "user", "assistant", "assistant", "tool"])
        content = random_text(rng, True)
        if rng.random() < 0.2:
            content = "<think>\n" + random_text(rng, False) + "\n</think>\n\n" + content
        if rng.random() < 0.1:
            content = [{"type": "text", "text": content}, {"type": "text", "text": "b"}]
        message = {"role": role, "content": content}
        if rng.random() < 0.05:
            message["content"] = None
        if role == "assistant" and rng.random() < 0.3:
            message["tool_calls"] = [{"type": "function", "id": "x", "function": {
                "name": rng.choice(["f", "look_up"]), "arguments": {k: random_value(rng, 1) for k in ("a", "b")[:rng.randrange(3)]}}}
                for _ in range(rng.randrange(1, 3))]
        if role == "assistant" and rng.random() < 0.2:
            message["reasoning_content"] = random_text(rng, False)
        messages.append(message)
    variables = {"messages": messages, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>",
                 "add_generation_prompt": rng.random() < 0.5, "date_string": "29 Nov 2026"}
    if rng.random() < 0.4:
        variables["tools"] = [{"type": "function", "function": {
            "name": "f", "description": random_text(rng, False), "parameters": {"type": "object", "properties": {
                "a": {"type": "string", "description": "x"}, "b": {"type": rng.choice(["integer", "number", "array"])}},
                "required": ["a"]}}}]
    if rng.random() < 0.5:
        variables["enable_thinking"] = rng.random() < 0.5
    return variables


ATOMS = ["x", "y", "z", "n", "l", "d", "'a b'", "' \\n'", "1", "0", "2.5", "true", "none", "[1, 2]", "{'a': 1}", "''", "d.a", "d['b']", "l[0]", "missing"]
FILTERS = ["trim", "length", "upper", "lower", "string", "list", "first", "last", "tojson", "default('q')", "join('-')", "replace('a', 'b')",
           "capitalize", "int", "float", "abs", "reverse|list", "sort", "items|list", "dictsort", "tojson(indent=2)", "indent(2)", "map('upper')|list",
           "select('string')|list", "reject('none')|list", "tojson(ensure_ascii=true)"]
METHODS = ["strip()", "split()", "split('a')", "split(' ', 1)", "lstrip('a ')", "rstrip()", "startswith('a')", "endswith(('b', ' '))", "upper()", "items()",
           "get('a')", "get('q', 5)", "keys()", "values()", "count('a')", "find('b')", "replace('a', 'bc')", "splitlines()", "rsplit('a', 1)", "capitalize()"]
TESTS = ["defined", "none", "string", "mapping", "iterable", "number", "integer", "true", "eq 1", "in [1, 'a b']", "undefined", "sequence", "boolean", "float", "odd"]


def random_expression(rng, depth=0):
    if depth > 3 or rng.random() < 0.25:
        return rng.choice(ATOMS)
    inner = lambda: random_expression(rng, depth + 1)
    kind = rng.randrange(12)
    if kind == 0:
        return f"{inner()} {rng.choice(['+', '-', '*', '//', '%', '/', '~', '~'])} {inner()}"
    if kind == 1:
        return f"{inner()} {rng.choice(['==', '!=', '<', '>=', 'in', 'not in'])} {inner()}"
    if kind == 2:
        return f"{inner()} {rng.choice(['and', 'or'])} {inner()}"
    if kind == 3:
        return f"({inner()} if {inner()} else {inner()})"
    if kind == 4:
        return f"not {inner()}"
    if kind == 5:
        return f"({inner()})[{rng.choice([':1', '1:', '::-1', '-1', '0', ':-1', '1:2', '::2', '-2:'])}]"
    if kind in (6, 7, 8):
        return f"({inner()})|{rng.choice(FILTERS)}"
    if kind == 9:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind == 10:
        return f"{inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    return f"[{inner()}, {inner()}]"


def random_template(rng):
    dash = lambda: rng.choice(["", "", "-", "+"])
    gap = lambda: rng.choice(["", " ", "\n", "  \n  ", "t", "\n\n"])
    parts = []
    for _ in range(rng.randrange(1, 4)):
        end = dash().replace("+", "")
        kind = rng.randrange(5)
        body = f"{{{{{dash()} {random_expression(rng)} {end}}}}}"
        if kind == 0:
            body = f"{{%{dash()} if {random_expression(rng)} {dash()}%}}{gap()}{body}{gap()}{{%{dash()} else {dash()}%}}{gap()}e{{% endif %}}"
        if kind == 1:
            body = f"{{%{dash()} for i in {random_expression(rng)} {dash()}%}}{gap()}{{{{ loop.index }}}}{{{{ i }}}}{body}{{% endfor {dash()}%}}"
        if kind == 2:
            body = f"{{%{dash()} set x = {random_expression(rng)} {dash()}%}}{gap()}{body}"
        if kind == 3:
            body = f"{{#{dash()} c {dash()}#}}{body}"
        parts.append(gap() + body + gap())
    return "".join(parts)


def compare_templates(probe, comparison, rng, rounds):
    env = environment()
    files = sorted((ROOT / "third_party/templates/trl/chat_templates").glob("*.jinja"))
    for round_ in range(rounds):
        file = files[round_ % len(files)]
        compare_rendering(probe, comparison, env, "template " + file.stem, file.read_text(encoding="utf-8"),
                          random_conversation(rng))
    for _ in range(rounds):
        variables = {"x": random_text(rng, False), "y": random_value(rng), "n": rng.randrange(-3, 4),
                     "z": random_value(rng), "l": [random_value(rng), 1], "d": {"a": random_value(rng), "b": "c"}}
        compare_rendering(probe, comparison, env, "expression", random_template(rng), variables)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=20000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--preset", default="release", help="whose text_probe: asan, too, looks at memory")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")  # Python warns of what random expressions do
    rng, probe, comparison = random.Random(options.seed), Probe(options.preset), Comparison()
    compare_tokenizers(probe, comparison, rng, options.rounds)
    compare_templates(probe, comparison, rng, options.rounds)
    for what, count in comparison.compared.items():
        print(f"{count:7} {what}")
    for what, count in sorted(comparison.refused.items(), key=lambda entry: -entry[1])[:30]:
        print(f"{count:7} refused: {what}")
    print(comparison.different, "different")
    return bool(comparison.different)


if __name__ == "__main__":
    sys.exit(main())
