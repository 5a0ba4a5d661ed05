from __future__ import annotations

import pytest

from midstep.core import errors
from midstep.core.ids import is_run_id, new_run_id, slug


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "MidstepError"])
def test_each_error_is_of_the_family_and_also_a_builtin(name: str) -> None:
    made = getattr(errors, name)
    assert issubclass(made, errors.MidstepError)
    builtin = {base for base in made.__mro__ if base.__module__ == "builtins"}
    assert builtin - {Exception, BaseException, object}


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert "pip install 'midstep[demo]'" in str(errors.MissingExtraError.of("mlxtend", "demo"))


@pytest.mark.parametrize(
    "text", ["", "..", "A" * 12, "abc", "a" * 13, "abcdefghijk/", "aaaaaaaaaaa\n"]
)
def test_what_is_no_run_id_is_not_taken_for_one(text: str) -> None:
    assert not is_run_id(text)
    assert is_run_id(new_run_id())


def test_a_name_without_letters_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="no letter or digit"):
        slug("///")
