"""Tokens of the API: who has none is not told anything."""
import os

import pytest
from test_functions import run
from weir import weir

CONFIG = '''
api: 127.0.0.1:0
gates: { g: { limit: 1 } }
api_tokens:
  reader: { token: "${WEIR_TEST_TOKEN}", scopes: [read] }
  worker: { file: %s, scopes: [work] }
'''


@pytest.fixture(autouse=True)
def secret():
    os.environ['WEIR_TEST_TOKEN'] = 'a-secret-of-the-reader'
    yield
    del os.environ['WEIR_TEST_TOKEN']


def test_a_token_with_the_right_scope_is_asked_for(tmp_path):
    async def test():
        path = tmp_path / 'token'
        path.write_text('a-secret-of-the-worker\n')
        async with weir(CONFIG % path) as gateway:
            async def ask(path, token=None):
                headers = {} if token is None else {'Authorization': token}
                async with gateway._session.get(gateway.api + path, headers=headers) as reply:
                    return reply.status, reply.headers, await reply.text()
            assert (await ask('/healthz'))[0] == 200
            assert (await ask('/readyz'))[0] == 200
            assert (await ask('/gates', 'Bearer a-secret-of-the-reader'))[0] == 200
            assert (await ask('/gates', 'bearer a-secret-of-the-reader'))[0] == 200
            for token in (None, '', 'Bearer', 'Bearer ', 'Bearer a-secret-of-the-reade',
                          'Bearer a-secret-of-the-readerx', 'Basic a-secret-of-the-reader',
                          'Bearer A-secret-of-the-reader'):
                status, headers, text = await ask('/gates/g', token)
                assert status == 401, token
                assert headers['WWW-Authenticate'] == 'Bearer'
                assert 'urn:weir:unauthorized' in text and 'a-secret' not in text
            status, _, text = await ask('/gates', 'Bearer a-secret-of-the-worker')
            assert (status, 'urn:weir:forbidden' in text) == (403, True)
    run(test())


def test_a_token_whose_file_cannot_be_read_keeps_it_from_starting(tmp_path):
    async def test():
        short = tmp_path / 'short'
        short.write_text('too-short\n')
        for path in (tmp_path / 'missing', short):
            with pytest.raises(AssertionError, match='ended before it listened'):
                async with weir(CONFIG % path):
                    pass
    run(test())
