"""Schemathesis over the whole contract with other credentials than keys, in a file that another worker can take."""

import pytest

from tests.contract.fuzzing import FUZZED_OTHERWISE, fuzz


@pytest.mark.check
@pytest.mark.slow(120)
@pytest.mark.timeout(1500)
def test_fuzzed_requests_without_a_key_get_only_answers_of_the_contract(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    fuzz(FUZZED_OTHERWISE, tmp_path_factory)
