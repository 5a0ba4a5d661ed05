"""What the names of the parts of a batch say, as datasets and collate functions choose them."""

from __future__ import annotations

from typing import Literal

from midstep.control.samples.layout import SampleKind

Role = Literal["target", "mask", "beside"]

_KINDS: dict[SampleKind, str] = {
    "images": "image img pixel_value pixel picture photo",
    "frames": "video frame clip",
    "text": "text sentence prompt question document content query passage article review "
    "utterance instruction input_text source_text",
    "tokens": "input_id token_id token decoder_input_id",
    "audio": "audio waveform wav speech sound",
    "series": "series time_series past_value signal ecg eeg",
}
_ROLES: dict[Role, str] = {
    "target": "label target y answer tgt trg ground_truth gt class summary completion",
    "mask": "mask segmentation seg segmentation_mask seg_mask semantic_mask label_mask",
    "beside": "attention_mask padding_mask pad_mask key_padding_mask src_key_padding_mask "
    "special_tokens_mask token_type_id position_id segment_id decoder_attention_mask length "
    "lengths weight sample_weight loss_mask idx index id sample_id path file filename name key",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names.split()}


def _word(name: str) -> str:
    """The last part of a dotted name, in small letters and in the singular.

    >>> _word("inputs.Pixel_Values")
    'pixel_value'
    """
    last = name.rsplit(".", 1)[-1].lower()
    return last if last in _ROLE_OF or last in _KIND_OF else last.removesuffix("s")


def kind_of_name(name: str) -> SampleKind | None:
    """The kind that a name says; None if it says none.

    >>> kind_of_name("input_ids"), kind_of_name("x")
    ('tokens', None)
    """
    return _KIND_OF.get(_word(name))


def role_of_name(name: str) -> Role | None:
    """What a part is if it is not the input; None if its name does not say.

    >>> role_of_name("attention_mask"), role_of_name("labels"), role_of_name("masks")
    ('beside', 'target', 'mask')
    """
    return _ROLE_OF.get(_word(name))
