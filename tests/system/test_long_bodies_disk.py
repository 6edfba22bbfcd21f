"""Long bodies on a disk that fails, which has to be preloaded: tools/test runs this file once, without a sanitizer."""
import json

import pytest
from power import Faults
from raw import ask, reply, run, upstream
from test_bodies import problem_of
from test_llm import JSON, chat, completion, llm, post, quiet
from test_long_bodies import nothing_left, picture
from weir import until


@run
@pytest.mark.parametrize('error, type', [('ENOSPC', 'spool-full'), ('EIO', 'store-failed')])
async def test_a_disk_that_takes_no_more_is_told(tmp_path, error, type):
    (tmp_path / 'data').mkdir()
    faults = Faults(tmp_path, tmp_path / 'data')
    body = json.dumps(picture(2)).encode()
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, top=f'data: "{tmp_path}/data"', env=faults.environment()) as gateway:
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        faults.fail('write', error, after=3)
        for _ in range(2):
            message = await ask(gateway.port, post(body), 'POST')
            assert (message.status, message.one('retry-after')) == (503, '5')
            assert problem_of(message)['type'] == f'urn:weir:{type}'
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 200  # short ones need no disk
        faults.fail('write', 'short')  # which is no failure
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        await nothing_left(gateway)
        await until(lambda: 'cannot be kept in a file of' in gateway.complaints(), 'the log says so')
    assert [len(message.body) for message in server.seen] == [len(body), len(json.dumps(chat())), len(body)]


@run
async def test_a_disk_that_does_not_give_a_body_back_is_told(tmp_path):
    (tmp_path / 'data').mkdir()
    faults = Faults(tmp_path, tmp_path / 'data')
    body = json.dumps(picture(2)).encode()
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, top=f'data: "{tmp_path}/data"', env=faults.environment()) as gateway:
        faults.fail('read', 'EIO', after=3)
        message = await ask(gateway.port, post(body), 'POST')
        assert (message.status, problem_of(message)['type']) == (503, 'urn:weir:store-failed')
        faults.mend()
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        await quiet(gateway)
        await nothing_left(gateway)
