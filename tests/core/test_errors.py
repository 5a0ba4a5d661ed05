from __future__ import annotations

import pytest

from midstep.core import errors
from midstep.core.ids import is_run_id, new_run_id, slug

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and value.__module__ == errors.__name__
]


@pytest.mark.parametrize(
    "error",
    [one for one in CLASSES if one not in (errors.MidstepError, errors.StopTraining)],
    ids=lambda one: one.__name__,
)
def test_each_error_is_of_the_family_and_also_a_builtin(error: type) -> None:
    assert issubclass(error, errors.MidstepError)
    builtin = {base for base in error.__mro__ if base.__module__ == "builtins"}
    assert builtin - {Exception, BaseException, object}


def test_a_stop_passes_through_handlers_of_exceptions() -> None:
    assert issubclass(errors.StopTraining, SystemExit)
    assert not issubclass(errors.StopTraining, Exception)


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert "pip install 'midstep[demo]'" in str(
        errors.MissingExtraError.for_library("mlxtend", "demo")
    )


@pytest.mark.parametrize(
    "text", ["", "..", "A" * 12, "abc", "a" * 13, "abcdefghijk/", "aaaaaaaaaaa\n"]
)
def test_what_is_no_run_id_is_not_taken_for_one(text: str) -> None:
    assert not is_run_id(text)
    assert is_run_id(new_run_id())


def test_a_name_without_letters_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="no letter or digit"):
        slug("///")
