"""Templates of plans: the command offers exactly those there are, each begins with a canary.

Tested here: `operations.plan_templates`. Not tested here: plans made of them (`test_plan.py`).
"""

from backfill_assets.cli.plan import TEMPLATE_NAMES
from backfill_assets.operations.plan_templates import TEMPLATES


def test_the_command_offers_every_template_and_each_begins_with_a_canary() -> None:
    assert set(TEMPLATE_NAMES) == set(TEMPLATES)
    assert all(policy.canary >= 1 and policy.template == name for name, (_, policy) in TEMPLATES.items())
