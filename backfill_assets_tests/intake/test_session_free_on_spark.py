"""The same on Spark: nothing of the session enters a row, and a key has one text.

Tested here: what needs the engine of `test_session_free` and `test_texts_of_keys`, once more.
"""

import pytest

from backfill_assets_tests.intake.test_session_free import (  # noqa: F401 - collected here
    test_a_column_of_such_a_name_is_read,
    test_a_name_that_no_column_has_is_an_absent_column,
    test_a_text_becomes_a_time_only_with_a_day_in_it,
    test_every_function_of_the_engine_was_looked_at,
    test_no_way_from_a_text_to_a_time_ends_today,
    test_so_does_a_text_that_is_left_to_the_type_of_its_column,
    test_variables_of_the_server_are_texts,
)
from backfill_assets_tests.intake.test_texts_of_keys import (  # noqa: F401 - collected here
    test_a_key_has_one_text_or_its_file_is_refused,
)

pytestmark = pytest.mark.on_spark("it is what Spark makes of the same texts, names and keys")
