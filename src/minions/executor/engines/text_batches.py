"""Texts as tokens: counted before any cut, sorted by length, and batched with little padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

_PROBES = ("a", "two words", "a longer text, with some punctuation; and a few more words than the other ones")


@dataclass(frozen=True, slots=True)
class Tokenized:
    """Rows of texts. tokens: with special ones, before any cut; None where the model has no tokens to count.

    widths: what a row takes of a batch. columns: the tokenizer's, by row; None when the model reads texts itself.
    """

    texts: list[str]
    tokens: list[int | None]
    widths: list[int]
    columns: dict[str, list[list[int]]] | None

    def is_cut(self, index: int) -> bool:
        """Whether the model sees only a part of this text."""
        tokens = self.tokens[index]
        return tokens is not None and tokens > self.widths[index]


def batches(rows: Sequence[int], widths: Sequence[int], budget: int, multiple: int = 1) -> Iterator[list[int]]:
    """Rows in batches of at most `budget` padded tokens (one row at least), the longest first.

    The longest come first so that what does not fit into memory shows at once. multiple: widths are padded to it.
    """
    ordered = sorted(rows, key=lambda row: widths[row], reverse=True)
    at = 0
    while at < len(ordered):
        width = max(1, -(-widths[ordered[at]] // multiple) * multiple)
        size = max(1, budget // width)
        yield ordered[at : at + size]
        at += size


class TextTokenizer:
    """Turns texts into a model's features, each text tokenized once.

    A model that adds more to its tokens than padding (a chat template, offsets) is found out by comparing with its own
    preprocessing, and then does that itself.
    """

    def __init__(self, model: SentenceTransformer, prompt: str) -> None:
        self._model = model
        self._prompt = prompt
        tokenizer: Any = model.tokenizer
        self._tokenizer = tokenizer if callable(tokenizer) else None
        limit: Any = model.max_seq_length
        self.most_tokens = int(limit) if limit is not None and limit < 1e9 else 1_000_000_000
        self._extras: dict[str, Any] = {}
        self._plain = self._tokenizer is not None and self._is_plain()

    def tokenize(self, texts: Sequence[str]) -> Tokenized:
        """Count and cut. A text that is longer than the window keeps its beginning."""
        prompted = [self._prompt + text for text in texts] if self._prompt else list(texts)
        if self._tokenizer is None:
            return Tokenized(list(texts), [None] * len(texts), [len(text) // 4 + 1 for text in texts], None)
        columns = self._columns(prompted, truncation=False)
        tokens = [len(ids) for ids in columns["input_ids"]]
        long = [index for index, count in enumerate(tokens) if count > self.most_tokens]
        if long:
            longer = [prompted[index] for index in long]
            cut = self._columns(longer, truncation="longest_first", max_length=self.most_tokens)
            for name, column in cut.items():
                for index, values in zip(long, column, strict=True):
                    columns[name][index] = values
        widths = [len(ids) for ids in columns["input_ids"]]
        return Tokenized(list(texts), [*tokens], widths, columns if self._plain else None)

    def features(self, rows: Tokenized, batch: Sequence[int], multiple: int = 1) -> dict[str, Any]:
        """What the model's modules take, for these rows."""
        if rows.columns is None:
            texts = [rows.texts[index] for index in batch]
            return self._preprocess(texts)
        return self._pad(rows.columns, batch, multiple) | self._extras

    def _columns(self, texts: list[str], **how: Any) -> dict[str, list[list[int]]]:
        tokenizer: Any = self._tokenizer
        return dict(tokenizer(texts, **how))

    def _preprocess(self, texts: list[str]) -> dict[str, Any]:
        model: Any = self._model
        return model.preprocess(texts, prompt=self._prompt or None)

    def _pad(self, columns: dict[str, list[list[int]]], batch: Sequence[int], multiple: int) -> dict[str, Any]:
        import torch  # takes seconds, and batches are made without it

        tokenizer: Any = self._tokenizer
        width = max(len(columns["input_ids"][index]) for index in batch)
        width = min(-(-width // multiple) * multiple, max(width, self.most_tokens))
        fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        left = tokenizer.padding_side == "left"
        padded: dict[str, Any] = {}
        from_numpy = cast("Callable[[Any], torch.Tensor]", torch.from_numpy)
        for name, column in columns.items():
            values = np.full((len(batch), width), fill.get(name, 0), dtype=np.int64)
            for row, index in enumerate(batch):
                ids = column[index]
                values[row, width - len(ids) if left else 0 : width if left else len(ids)] = ids
            padded[name] = from_numpy(values)
        return padded

    def _is_plain(self) -> bool:
        """Whether our features are those of the model itself; also keeps what it adds to each batch."""
        import torch

        self._plain = True
        probes = [*_PROBES, "long " * min(self.most_tokens, 4_096)]
        own = self._preprocess(probes)
        self._extras = {name: value for name, value in own.items() if not isinstance(value, torch.Tensor)}
        rows = self.tokenize(probes)
        ours = self.features(rows, range(len(probes)))
        return ours.keys() == own.keys() and all(
            torch.equal(ours[name], value) for name, value in own.items() if isinstance(value, torch.Tensor)
        )
