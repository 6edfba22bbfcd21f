"""Routes to LLMs when somebody misbehaves: clients that go, providers that say odd things at odd times, and memory that
runs out. Whatever happens has a defined answer, and nothing stays held."""
import json

import pytest
from raw import ask, reply, run, upstream
from test_llm import JSON, chat, completion, llm, post


# ---- keys

@pytest.mark.parametrize('key', ['x-{model}-{tenant}', '{model}-{tenant}', '{tenant}-{model}', 'x-{tenant}'])
@run
async def test_a_key_that_is_too_long_without_its_model_is_refused(key):
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        await gateway.reload(('key: "{model}"', f'key: "{key}"'))
        said = await ask(gateway.port, post(chat(), f'X-Tenant: {"t" * 255}'), 'POST')
        problem = json.loads(said.body)
        assert (said.status, problem['type']) == (400, 'urn:weir:bad-request')
        assert (await ask(gateway.port, post(chat(), 'X-Tenant: t'), 'POST')).status == 200
        assert len(server.seen) == 1
