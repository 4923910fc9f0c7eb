"""What models share: frozen, written as JSON; closed to unknown keys, or open where others wrote the keys."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

# A page of PostgreSQL in bytes, as nearly all servers are built (BLCKSZ). A record that has the server's
# block_size says it itself.
PAGE_BYTES = 8192
# Limits of storage are given in MiB a second; every rate is told in MB, 10⁶ bytes.
MIB_BYTES = 1 << 20
# A figure that is stored as it was written, with or without a decimal point.
Number = int | float


class Frozen(BaseModel):
    """A value object: never changed after it is made, equal when its fields are equal."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        """Itself: what never changes need not be copied.

        pydantic copies a default that can't be hashed for each document that does not have the field, and
        most of a record's defaults hold a dict: that took longer than all the rest of reading it.
        """
        return self


class Extended(Frozen):
    """A value object that got fields after experiments had been stored without them.

    Those named in `LATER_FIELDS` are not written while they have their default, so that what was stored
    before stays byte for byte what it was: the fingerprint of an experiment is of its bytes.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        dumped: dict[str, object] = handler(self)
        fields = type(self).model_fields
        defaults = {name: fields[name].get_default(call_default_factory=True) for name in self.LATER_FIELDS}
        kept = {name for name, default in defaults.items() if getattr(self, name) != default}
        return {
            name: value for name, value in dumped.items() if name in kept or name not in self.LATER_FIELDS
        }


class Recorded(Frozen, Mapping[str, object]):
    """Facts of a record: fields for what this version knows, and a mapping of exactly the keys stored.

    Which keys there are varies with the machine, the storage and the version that wrote them. A key that is
    missing leaves its field at the default, one that is not known is kept, and both are written again as they
    were, in their order: the fingerprint of an experiment is of its bytes.
    """

    model_config = ConfigDict(extra="allow")
    _order: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _with_order(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(value)
        if made is not value and isinstance(value, Mapping):
            made._order = tuple(value)
        return made

    @model_serializer(mode="wrap")
    def _as_stored(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        dumped = handler(self)
        return {name: dumped[name] for name in self if name in dumped}

    # pydantic's own iteration gives pairs; a mapping gives its keys.
    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        later = (name for name in type(self).model_fields if name not in self._order)
        return (name for name in (*self._order, *later) if name in self.model_fields_set)

    def __len__(self) -> int:
        return len(self.model_fields_set)

    def __getitem__(self, name: str) -> object:
        unknown = self.model_extra or {}
        if name in unknown:
            return unknown[name]
        if name not in self.model_fields_set:
            raise KeyError(name)
        value: object = getattr(self, name)
        return value

    def updated(self, **changes: object) -> Self:
        """A copy with these keys changed or added; raises ValidationError for a value of a wrong type."""
        return type(self).model_validate({**self, **changes})
