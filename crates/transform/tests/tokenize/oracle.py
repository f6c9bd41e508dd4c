"""The libraries that packhorse's tokens are compared with.

oracle.py hf TOKENIZER TEXTS OUT            tokenizers, from a tokenizer.json
oracle.py literal TOKENIZER TEXTS OUT       the same, special tokens in the text not parsed
oracle.py tiktoken VOCABULARY TEXTS OUT     tiktoken, from a .tiktoken file; encode_ordinary
oracle.py sentencepiece MODEL TEXTS OUT     sentencepiece, from a .model
oracle.py vocabulary TOKENIZER OUT          a tokenizer.json's vocabulary as a .tiktoken file
oracle.py train TEXTS OUT                   SentencePiece models, into the folder OUT

TEXTS holds a JSON string a line. OUT gets, for each, the count and the numbers as u32, little-endian.
"""
import base64
import json
import struct
import sys


def texts(path):
    with open(path, encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def write(path, documents):
    with open(path, "wb") as out:
        for ids in documents:
            out.write(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids))


def hf(path, lines, literal=False):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = literal
    for at in range(0, len(lines), 256):
        for encoding in tokenizer.encode_batch_fast(lines[at : at + 256]):
            yield encoding.ids


# openai_public.py has these; its own loader downloads the vocabularies.
CONTRACTION = r"'(?i:[sdmt]|ll|ve|re)"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"


def tiktoken(path, lines):
    import tiktoken

    with open(path, "rb") as file:
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file)}
    small = len(ranks) < 100_000
    end = {"<|endoftext|>": 50_256 if small else 100_257}
    encoding = tiktoken.Encoding("x", pat_str=GPT2 if small else CL100K, mergeable_ranks=ranks, special_tokens=end)
    return encoding.encode_ordinary_batch(lines, num_threads=2)


def vocabulary(path, out):
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    byte_of = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    ranks = sorted((rank, token) for token, rank in tokenizer["model"]["vocab"].items() if token not in special)
    with open(out, "w") as file:
        for rank, token in ranks:
            file.write(f"{base64.b64encode(bytes(byte_of[c] for c in token)).decode()} {rank}\n")


def sentencepiece(path, lines):
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=path).encode(lines, num_threads=1)


def train(lines, out):
    import sentencepiece

    models = {
        "bpe": {"model_type": "bpe"},
        "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "split_digits": True, "allow_whitespace_only_pieces": True,
                      "remove_extra_whitespaces": False, "normalization_rule_name": "identity"},
        "bpe_user": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "ing", "\u2581the", "\u00df\u2581"],
                     "control_symbols": ["<mask>"], "split_by_whitespace": False, "add_dummy_prefix": False},
        "bpe_suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True, "normalization_rule_name": "nfkc_cf"},
        "unigram": {"model_type": "unigram"},
        "unigram_bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "identity",
                          "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True},
        "unigram_user": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "ing", "\u2581the"],
                         "control_symbols": ["<mask>"], "normalization_rule_name": "nmt_nfkc_cf"},
    }
    for name, options in models.items():
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_prefix=f"{out}/{name}", vocab_size=2000, character_coverage=0.995,
            num_threads=2, minloglevel=2, max_sentence_length=20_000, hard_vocab_limit=False, **options)


def main(mode, *arguments):
    if mode == "vocabulary":
        vocabulary(*arguments)
    elif mode == "train":
        train(texts(arguments[0]), arguments[1])
    else:
        path, lines, out = arguments
        run = {"hf": hf, "tiktoken": tiktoken, "sentencepiece": sentencepiece}.get(mode)
        write(out, run(path, texts(lines)) if run else hf(path, texts(lines), literal=True))


main(*sys.argv[1:])
