"""Tables from CSV and Parquet, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.core.errors import DatasetError
from midstep.data.build.read_table import read_rows
from tests.data.build.text_samples import build_config, topic_rows, write_csv


def read(path: Path, text: str, **changes):
    path.write_text(text, encoding="utf-8")
    return read_rows(build_config(path, path.with_name("out"), **changes))


def test_parquet_and_csv_give_the_same_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = topic_rows(20)
    table = write_csv(tmp_path / "t.csv", rows)
    listed = [{**row, "keywords": row["keywords"].split(";")} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(listed), tmp_path / "t.parquet")
    from_csv = read_rows(build_config(table, tmp_path / "out"))
    assert from_csv == read_rows(build_config(tmp_path / "t.parquet", tmp_path / "out"))
    assert from_csv.keywords[0] == rows[0]["keywords"].split(";")


def test_several_tables_stand_one_behind_another(tmp_path: Path) -> None:
    one = write_csv(tmp_path / "1.csv", topic_rows(3))
    two = write_csv(tmp_path / "2.csv", topic_rows(4, seed=1))
    rows = read_rows(build_config([one, two], tmp_path / "out"))
    assert len(rows) == 7
    assert rows.questions[3] == topic_rows(4, seed=1)[0]["question"]


def test_quoted_cells_and_marks_of_excel_are_read(tmp_path: Path) -> None:
    rows = read(tmp_path / "t.csv", '\ufeffquestion,source,relevance\n"a, ""b""\nc",s,0.5\n')
    assert rows.questions == ['a, "b"\nc']
    assert rows.relevance == [0.5]
    assert rows.keywords == [[]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("question,answer,relevance\nq,s,1\n", "no column 'source', it has 'question', 'answer'"),
        ("question,source\nq,s\n", "no column 'relevance'.*--no-relevance"),
        ("", "no column 'question', 'source', 'relevance', it has none"),
        ("question;source;relevance\nq;s;1\n", "semicolons between them: save it with commas"),
        ("question,source,relevance\n", "has no rows"),
        ("question,source,relevance\nq,s,nan\n", "line 2: relevance is 'nan', expected a number"),
        ("question,source,relevance\nq,s,1.5\n", "line 2: relevance is '1.5'"),
        ("question,source,relevance\nq,s,\n", "line 2: relevance is ''"),
        ("question,source,relevance\n ,s,1\n", "line 2: question is ' ', expected a text"),
        ("question,source,relevance\nq\n", "line 2: source is None"),
        ("question,source,relevance\nq,s,1,k,m\n", "line 2 has more cells"),
        ('question,source,relevance\n"q,s,1\n', "not a complete CSV file"),
    ],
)
def test_bad_tables_are_one_clear_error(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DatasetError, match=f"(?s){told}"):
        read(tmp_path / "t.csv", text)


def test_all_wrong_rows_are_told_up_to_twenty(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        read(tmp_path / "t.csv", "question,source,relevance\n" + "q,,2\n" * 30)
    told = str(caught.value)
    assert "t.csv line 2: source is ''" in told
    assert "… and 40 more" in told


def test_other_encodings_other_files_and_none(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("question,source,relevance\né,s,1\n".encode("latin-1"))
    with pytest.raises(DatasetError, match="is not UTF-8"):
        read_rows(build_config(tmp_path / "t.csv", tmp_path / "out"))
    with pytest.raises(DatasetError, match="does not exist"):
        read_rows(build_config(tmp_path / "none.csv", tmp_path / "out"))
    (tmp_path / "t.xlsx").write_bytes(b"x")
    with pytest.raises(DatasetError, match=r"neither \.csv"):
        read_rows(build_config(tmp_path / "t.xlsx", tmp_path / "out"))
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    pytest.importorskip("pyarrow")
    with pytest.raises(DatasetError, match="not a complete Parquet file"):
        read_rows(build_config(tmp_path / "t.parquet", tmp_path / "out"))


def test_keywords_asked_for_by_another_name_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no column 'tags'"):
        read(tmp_path / "t.csv", "question,source,relevance\nq,s,1\n", keywords_column="tags")


def test_wrong_split_and_wrong_keywords_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"question": "q", "source": "s", "part": "dev", "keywords": [1, 2]}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    config = build_config(
        tmp_path / "t.parquet", tmp_path / "o", relevance_column=None, split_column="part"
    )
    with pytest.raises(DatasetError) as caught:
        read_rows(config)
    assert "row 0: part is 'dev', expected train, val, test" in str(caught.value)
    assert "row 0: keywords is [1, 2]" in str(caught.value)


def test_settings_that_cannot_work_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        build_config(tmp_path / "t", tmp_path / "o", margin=2, quotas={1: 1}, form="zip")
    told = str(caught.value)
    assert "margin must be a number from 0 to 1, got 2" in told
    assert "quotas must have the tiers 1, 2, 3, 4" in told
    assert "form must be one of memmap, pt, hdf5, got 'zip'" in told
