#!/usr/bin/env python3
"""Writes the tokenizer.json of Qwen 2 and 3 out of the ranks that the PyPI wheel `dashscope` carries: the tests' real
vocabulary in Hugging Face's format. Needs nothing but Python.

    make_qwen_tokenizer.py qwen.tiktoken tokenizer.json
"""
import base64
import json
import sys

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<think>", "</think>"]


def byte_spelling():
    """GPT-2's printable character for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


def last_merge(token, rank, ranks):
    """The two parts that byte-pair encoding with better ranks leaves of a token."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [(ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1)]
        best, i = min(pairs)
        if best >= rank:
            return None
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def main(source, target):
    with open(source, "rb") as file:
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, file)}
    spelling = byte_spelling()
    spelled = {token: "".join(spelling[byte] for byte in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        parts = last_merge(token, rank, ranks) if len(token) > 1 else None
        if parts:
            merges.append([spelled[parts[0]], spelled[parts[1]]])
    added = [{"id": len(ranks) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": text in SPECIAL} for i, text in enumerate(SPECIAL + ADDED)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {spelled[token]: rank for token, rank in ranks.items()}, "merges": merges},
    }
    with open(target, "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, ensure_ascii=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
