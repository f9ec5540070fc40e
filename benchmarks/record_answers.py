"""Record what a language model answers about messages to a bank: the file behind `knn-ue demo answers`.

    python benchmarks/record_answers.py --data task-specific-datasets/banking_data --url http://127.0.0.1:8080/v1

`--data` is the folder of BANKING77 (CC BY 4.0, https://github.com/PolyAI-LDN/task-specific-datasets), `--url` a server
that speaks OpenAI's protocol. What ships was answered by Qwen2.5-Coder-1.5B-Instruct, 4-bit, in llama.cpp on one
thread. Rows come in a fixed order; what is recorded already is not asked again. A reply that is no JSON stays whole, as
the answer.
"""

import argparse
import csv
import json
import random
import re
import urllib.request
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "src" / "knn_ue" / "demo" / "bank_answers.jsonl"
TOPICS = {
    "card_arrival": "card arrival",
    "lost_or_stolen_card": "lost or stolen card",
    "cash_withdrawal_charge": "cash withdrawal fee",
    "card_payment_fee_charged": "payment fee",
    "exchange_rate": "exchange rate",
    "card_payment_wrong_exchange_rate": "wrong exchange rate",
    "top_up_failed": "failed top-up",
    "pending_top_up": "pending top-up",
    "request_refund": "refund",
    "Refund_not_showing_up": "missing refund",
    "declined_card_payment": "declined payment",
    "pending_card_payment": "pending payment",
}
PROMPT = (
    f"You sort messages to a bank into one of these topics: {', '.join(TOPICS.values())}. Reply in JSON only, with the "
    'topic and your confidence from 0 to 1, like {"topic": ..., "confidence": ...}'
)
LONGEST = 160


def messages(data: Path) -> list[tuple[str, str]]:
    """Return text and topic of every message that is asked about, in the order in which they are."""
    found = set()
    for part in ("train", "test"):
        with (data / f"{part}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["category"] in TOPICS and len(row["text"]) < LONGEST:
                    found.add((" ".join(row["text"].split()), TOPICS[row["category"]]))
    ordered = sorted(found)
    random.Random(2).shuffle(ordered)
    return ordered


def asked(text: str, url: str) -> str:
    """Return what the model replies to a message."""
    conversation = [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]
    body = {"messages": conversation, "temperature": 0, "max_tokens": 40}
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as reply:
        content: str = json.load(reply)["choices"][0]["message"]["content"]
    return content


def read_reply(reply: str) -> dict[str, Any]:
    """Return answer and confidence of a reply.

    >>> read_reply('```json {"topic": "refund", "confidence": 0.9} ```'), read_reply("I cannot say.")
    ({'answer': 'refund', 'confidence': 0.9}, {'answer': 'I cannot say.'})
    """
    try:
        found = json.loads(re.sub(r"```(json)?", "", reply).strip())
        said = {"answer": str(found["topic"])}
    except (ValueError, KeyError, TypeError):
        return {"answer": reply.strip()}
    return said | ({"confidence": found["confidence"]} if "confidence" in found else {})


def main() -> None:
    """Ask about the rows that have no answer yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()

    done = len(options.out.read_text(encoding="utf-8").splitlines()) if options.out.exists() else 0
    with options.out.open("a", encoding="utf-8") as file:
        for text, label in messages(options.data)[done : options.rows]:
            row = {"text": text, "label": label, **read_reply(asked(text, options.url))}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
