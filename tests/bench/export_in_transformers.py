#!/usr/bin/env python3
"""Loads what `millrace export` wrote with Hugging Face transformers and compares it with the reference numbers.

    pip install torch transformers                     (in a virtual environment)
    build/release/millrace export /tmp/smollm2 && tests/bench/export_in_transformers.py /tmp/smollm2

SmolLM2's log-probs, token ids and rendered chats must be those of tests/data/smollm2.json.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main(folder):
    golden = json.loads((ROOT / "tests/data/smollm2.json").read_text(encoding="utf-8"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    worst = 0.0
    for text in golden["logprobs"]:
        ids = torch.tensor([text["ids"]])
        with torch.no_grad():
            logp = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None]).squeeze(-1)
        worst = max(worst, (logp - torch.tensor(text["token_logprobs"])).abs().max().item())
    print(f"largest difference of a log-prob: {worst:.2g}")
    tokens = sum(tokenizer(e["text"], add_special_tokens=False).input_ids != e["ids"] for e in golden["tokens"])
    print(f"texts with other ids: {tokens} of {len(golden['tokens'])}")
    chats = sum(tokenizer.apply_chat_template(c["messages"], tokenize=False, add_generation_prompt=True) != c["text"]
                for c in golden["chat"])
    print(f"chats rendered otherwise: {chats} of {len(golden['chat'])}")
    return worst > 1e-3 or tokens > 0 or chats > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
