"""PostgreSQL's own functions, aggregates, operators and casts: which give the same value for the same input,
return sets, or raise no error."""

from pgassay.tune.rewrites.names.data_types import KNOWN_TYPES

NOW_LIKE = frozenset(
    {
        "now", "transaction_timestamp", "statement_timestamp", "clock_timestamp", "timeofday", "random",
        "random_normal", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval", "lastval", "setval",
        "pg_sleep", "txid_current", "pg_current_xact_id", "setseed",
    }
)  # fmt: skip
NOW_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})
AGGREGATES = frozenset(
    {
        "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor",
        "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr", "covar_pop",
        "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope",
        "regr_sxx", "regr_sxy", "regr_syy", "array_agg", "string_agg", "json_agg", "jsonb_agg",
        "json_object_agg", "jsonb_object_agg", "xmlagg", "percentile_cont", "percentile_disc", "mode",
        "any_value", "range_agg", "range_intersect_agg",
    }
)  # fmt: skip
# NULL for a group of NULLs alone, as an outer join without a partner gives, and for no rows; a count is 0.
NULL_WITHOUT_VALUES = frozenset({"sum", "avg", "min", "max", "bool_and", "bool_or", "every"})
ORDERED_AGGREGATES = frozenset(
    {"array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "xmlagg"}
)
# An arbitrary value by their definition.
ARBITRARY_AGGREGATES = frozenset({"any_value", "mode"})
TIE_PROOF_WINDOWS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
TIED_WINDOWS = frozenset({"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"})
_DECIDED = """
abs acos array_append array_cat array_fill array_length array_lower array_ndims array_position
array_positions array_prepend array_remove array_replace array_to_json array_to_string array_upper ascii
asin atan atan2 bit_count bit_length btrim cardinality cbrt ceil ceiling char_length character_length chr
coalesce concat concat_ws convert_from convert_to cos cot date_bin date_part date_trunc decode degrees div
encode erf exp extract factorial floor format gcd generate_series generate_subscripts get_bit get_byte
initcap isempty isfinite json_array_elements json_array_elements_text json_array_length json_build_array
json_build_object json_each json_each_text json_extract_path json_extract_path_text json_typeof
jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object
jsonb_each jsonb_each_text jsonb_exists jsonb_extract_path jsonb_extract_path_text jsonb_object_keys
jsonb_path_exists jsonb_path_query jsonb_set jsonb_strip_nulls jsonb_typeof justify_days justify_hours
justify_interval lcm left length like_escape ln log log10 lower lower_inc lower_inf lpad ltrim make_date
make_interval make_time make_timestamp make_timestamptz md5 min_scale mod num_nonnulls num_nulls
octet_length overlay phraseto_tsquery pi plainto_tsquery position power quote_ident quote_literal
quote_nullable radians range_merge regexp_count regexp_instr regexp_like regexp_match regexp_matches
regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr repeat replace reverse right round
row_to_json rpad rtrim scale sha224 sha256 sha384 sha512 sign similar_to_escape sin split_part sqrt
starts_with string_to_array string_to_table strpos substr substring tan timezone to_ascii to_char to_date
to_hex to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector translate trim trim_array trim_scale
trunc ts_headline ts_rank ts_rank_cd unnest upper upper_inc upper_inf websearch_to_tsquery width_bucket
"""
_SYMBOLS = """
+ - * / % ^ = <> != < > <= >= || ~ ~* !~ !~* ~~ !~~ ~~* !~~* -> ->> #> #>> @> <@ ? ?| ?& && @@ @@@ << >> & | #
-|- @ |/ ||/ &< &> @? #- !!
"""
COMPARISONS = ("=", "<", ">", "<=", ">=", "<>", "!=")
# These give several rows for one where they stand in the output.
SET_RETURNING = frozenset(
    {
        "generate_series", "generate_subscripts", "json_array_elements", "json_array_elements_text",
        "json_each", "json_each_text", "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_each",
        "jsonb_each_text", "jsonb_object_keys", "jsonb_path_query", "regexp_matches",
        "regexp_split_to_table", "string_to_table", "unnest",
    }
)  # fmt: skip
# Immutable, or stable and decided by settings of the session.
DECIDED_FUNCTIONS = frozenset(_DECIDED.split())
OPERATORS = frozenset(_SYMBOLS.split())
# These raise no error, whatever is in a column of the known types; with so many arguments at most. Of round()
# a numeric may overflow.
ERROR_FREE_FUNCTIONS = {
    "lower": 1, "upper": 1, "length": 1, "char_length": 1, "btrim": 2, "ltrim": 2, "rtrim": 2, "round": 2,
}  # fmt: skip
ERROR_FREE_AGGREGATES = frozenset({"count", "min", "max", "bool_and", "bool_or", "every"})
ERROR_FREE_WINDOWS = TIE_PROOF_WINDOWS | {"row_number", "lag", "lead", "first_value", "last_value"}
# What aggregates return, by the type of the column that they are of.
_ITSELF = (
    "smallint", "integer", "bigint", "numeric", "real", "double precision", "text", "character", "date",
    "timestamp without time zone", "timestamp with time zone", "time without time zone", "interval",
)  # fmt: skip
_LEAST = {kind: kind for kind in _ITSELF} | {"character varying": "text"}
AGGREGATE_TYPES = {
    "min": _LEAST,
    "max": _LEAST,
    "sum": {"smallint": "bigint", "integer": "bigint", "bigint": "numeric", "numeric": "numeric"},
    "avg": dict.fromkeys(("smallint", "integer", "bigint", "numeric"), "numeric"),
}
# Casts of a column, without a length or a precision, that no value of its type fails. Any of the known types
# can be written as text.
SAFE_CASTS = frozenset(
    {
        ("smallint", "int4"), ("smallint", "int8"), ("integer", "int8"), ("smallint", "numeric"),
        ("integer", "numeric"), ("bigint", "numeric"), ("smallint", "float8"), ("integer", "float8"),
        ("bigint", "float8"), ("timestamp without time zone", "date"), ("date", "date"),
        *((kind, word) for kind in KNOWN_TYPES for word in ("text", "varchar")),
    }
)  # fmt: skip
# Units that dates have as well as timestamps.
DAY_UNITS = frozenset({"day", "week", "month", "quarter", "year"})
