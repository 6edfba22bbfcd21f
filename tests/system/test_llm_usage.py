"""What calls of every kind are counted as: what their providers state, and uploads as nothing."""
import json

from raw import ask, reply, request, run, upstream
from test_llm import JSON, llm, post

IMAGE = {'created': 1, 'data': [{'b64_json': 'iVBORw0KGgo='}],
         'usage': {'total_tokens': 4260, 'input_tokens': 50, 'output_tokens': 4210}}
TRANSCRIPT = {'text': 'Imagine the wildest idea.', 'usage': {
    'type': 'tokens', 'input_tokens': 14, 'output_tokens': 45, 'total_tokens': 59}}
WHISPER = {'text': 'Imagine the wildest idea.', 'usage': {'type': 'duration', 'seconds': 9}}
MODERATION = {'id': 'm', 'model': 'omni-moderation-latest', 'results': [{'flagged': False}]}
BATCH = {'id': 'batch_1', 'object': 'batch', 'usage': {'input_tokens': 7000, 'output_tokens': 900}}


def form(target, fields, file=b'\xff\xfb\x90' * 1000):
    """A form with a file, as the clients of OpenAI send one."""
    parts = [f'--xYz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
             for name, value in fields.items()]
    parts.append(b'--xYz\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n'
                 b'Content-Type: audio/mpeg\r\n\r\n' + file + b'\r\n--xYz--\r\n')
    body = b''.join(parts)
    return request(target, 'Content-Type: multipart/form-data; boundary=xYz', f'Content-Length: {len(body)}',
                   'X-Tenant: acme', method='POST', body=body)


@run
async def test_what_the_provider_states_is_what_is_counted():
    replies = iter((IMAGE, TRANSCRIPT, WHISPER, MODERATION, {'id': 'file-1', 'object': 'file'}, BATCH, BATCH,
                    {'id': 'upload_1'}, {'usage': {'total_tokens': 30}}))

    async def serve(wire, message):
        await wire.send(reply(json.dumps(next(replies)).encode(), JSON))
    def asks(target, **more):
        return post(more, 'X-Tenant: acme', target=target)
    long = b'x' * (1100 << 10)
    calls = [
        (asks('/v1/images/generations', model='gpt-image-1', prompt='A cat'), 'gpt-image-1', (50, 4210)),
        (form('/v1/audio/transcriptions', {'model': 'gpt-4o-transcribe'}), 'gpt-4o-transcribe', (14, 45)),
        (form('/v1/audio/transcriptions', {'model': 'whisper-1'}, long), 'whisper-1', (0, 0)),
        (asks('/v1/moderations', model='omni-moderation-latest', input='Is this fine?'), 'omni-moderation-latest', (0, 0)),
        (form('/v1/files', {'purpose': 'batch'}, long), 'default', (0, 0)),
        (asks('/v1/batches', input_file_id='file-1', endpoint='/v1/chat/completions'), 'default', (7000, 900)),
        (request('/v1/batches/batch_1', 'X-Tenant: acme'), 'default', (7000, 900)),  # stated again, used once
        (form('/v1/uploads/upload_1/parts', {}, long), 'default', (7000, 900)),
        (asks('/v1/rerank', model='rerank-2', query='What?', documents=['This.']), 'rerank-2', (30, 0)),
    ]
    async with upstream(serve) as server, llm(server) as gateway:
        for text, model, (prompt, output) in calls:
            said = await ask(gateway.port, text, text.split(b' ')[0].decode() if isinstance(text, bytes) else 'POST')
            assert said.status == 200, said.body
            rows = {row['model']: row for row in (await gateway.ask_api('/usage?tenant=acme'))[1]['usage']}
            assert (rows[model]['input_tokens'], rows[model]['output_tokens']) == (prompt, output), model
        assert len(server.seen) == len(calls)


@run
async def test_a_form_goes_to_the_line_of_its_model_and_tenants_may_use_only_theirs():
    top = 'tenants: { acme: { models: [whisper-1] } }'
    async with upstream(reply(json.dumps(WHISPER).encode(), JSON)) as server, llm(server, top=top) as gateway:
        said = await ask(gateway.port, form('/v1/audio/transcriptions', {'model': 'whisper-1'}), 'POST')
        assert said.status == 200
        assert [key['key'] for key in (await gateway.ask_api('/gates/llm'))[1]['keys']] == ['whisper-1']
        said = await ask(gateway.port, form('/v1/audio/transcriptions', {'model': 'gpt-4o-transcribe'}), 'POST')
        assert said.status == 403
        assert (await ask(gateway.port, form('/v1/audio/transcriptions', {}), 'POST')).status == 403
        twice = {'model': 'whisper-1', 'x"\r\nX-A: b\r\n\r\n\r\n--xYz\r\n'
                 'Content-Disposition: form-data; name="model': 'gpt-4o-transcribe'}  # servers take the last
        assert (await ask(gateway.port, form('/v1/audio/transcriptions', twice), 'POST')).status == 403
        assert len(server.seen) == 1 and b'whisper-1' in server.seen[0].body
