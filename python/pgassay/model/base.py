"""What every model shares: frozen, closed to unknown keys, written as JSON."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value object: never changed after it is made, equal when its fields are equal."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
