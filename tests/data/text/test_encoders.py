"""Encoders: hashing, functions, names, sentence encoders on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from midstep.core.errors import ConfigError, DatasetError
from midstep.data.text.encoders import (
    CallableEncoder,
    HashingEncoder,
    encode_checked,
    encoder_from,
    sentence_encoder,
)


def test_hashing_is_a_function_of_the_text_alone() -> None:
    texts = ["The red fox runs.", "a blue whale", "?!", "", "ünïcode ωμέγα"]
    whole = HashingEncoder(48).encode(texts)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1)
    one_by_one = [HashingEncoder(48).encode([text])[0] for text in reversed(texts)]
    assert np.array_equal(whole, np.stack(one_by_one[::-1]))


def test_hashing_is_the_same_in_another_process() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; "
        "from midstep.data.text.encoders import HashingEncoder; "
        "print(HashingEncoder(8).encode(['a red fox']).tolist())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout) == HashingEncoder(8).encode(["a red fox"]).tolist()


def test_texts_that_share_words_are_nearer() -> None:
    rows = HashingEncoder().encode(
        ["is the moon made of cheese", "The moon is not made of cheese.", "engines burn petrol"]
    )
    assert rows[0] @ rows[1] > 0.5 > abs(rows[0] @ rows[2])


def test_names_and_functions_give_encoders() -> None:
    assert encoder_from("hashing").dimension == 384
    assert encoder_from("hashing:16").dimension == 16
    own = HashingEncoder(4)
    assert encoder_from(own) is own
    assert encoder_from(lambda texts: np.ones((len(texts), 3))).dimension == 3
    for wrong in ("glove", "hashing:x", "sentence:"):
        with pytest.raises(ConfigError, match="is unknown; use hashing"):
            encoder_from(wrong)


def test_wrong_answers_of_an_encoder_are_told() -> None:
    def short(texts: list[str]) -> object:
        return np.ones((1, 2))

    with pytest.raises(DatasetError, match=r"shape \[1, 2\] for 2 texts, expected \[2, 2\]"):
        encode_checked(CallableEncoder(short), ["a", "b"])
    with pytest.raises(DatasetError, match="not finite for 'b'"):
        encode_checked(
            CallableEncoder(lambda texts: [[float("nan") if t == "b" else 1.0] for t in texts]),
            ["a", "b"],
        )


def test_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no model"):
        sentence_encoder(tmp_path)


@pytest.fixture
def quiet_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)  # it would leave a thread behind


def tiny_model(folder: Path, *, pooling: str) -> Path:
    """A BERT of a few hundred weights, saved as sentence-transformers would."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "fox", "whale"]
    (folder / "vocab.txt").write_text("\n".join(words))
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({pooling: True}))
    return folder


@pytest.mark.usefixtures("quiet_bars")
def test_sentence_encoder_does_not_depend_on_its_batches(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model", pooling="pooling_mode_mean_tokens")
    texts = ["a red fox", "whale", "a a a red whale fox", "fox"]
    rows = sentence_encoder(folder, batch_size=2).encode(texts)
    assert rows.shape == (4, 8)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.allclose(rows, sentence_encoder(folder, batch_size=1).encode(texts), atol=1e-5)
    assert encoder_from(f"sentence:{folder}").name == "sentence:model"


@pytest.mark.usefixtures("quiet_bars")
def test_unknown_pooling_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model", pooling="pooling_mode_max_tokens")
    with pytest.raises(DatasetError, match="pools its tokens by pooling_mode_max_tokens"):
        sentence_encoder(folder)
