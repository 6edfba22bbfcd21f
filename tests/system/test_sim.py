"""`weir sim`, as people and scripts call it."""
import json
import os
import pty
import re
import xml.etree.ElementTree

from raw import run
from test_cli import Cli, ended

SMALL = '''
duration: 1m
warmup: 10s
provider: { limits: [ { rate: 600000/m, burst: 10s } ] }
tenants: { a: { count: 2, load: 2 }, b: { load: 1 } }
policies: [truth, low, backoff]
'''


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


@run
async def test_without_words_it_lists_what_there_is():
    said = await Cli(None).good('sim')
    for name in ('steady', 'burst', 'change', 'brownout', 'noisy', 'streams', 'places', 'instances', 'day', 'silent'):
        assert re.search(f'^  {name} +[a-z0-9]', said.out, flags=re.M), name
    for name in ('truth', 'low', 'high', 'backoff', 'published', 'vegas', 'gradient2', 'envoy', 'aimd', 'learned'):
        assert re.search(f'^  {name} +', said.out, flags=re.M), name


@run
async def test_a_table_the_same_each_time(tmp_path):
    cli = Cli(None)
    path = written(tmp_path, 's.yaml', SMALL)
    said = await cli.good('sim', path)
    assert [row['POLICY'] for row in said.rows] == ['truth', 'low', 'backoff']
    truth, low, backoff = said.rows
    assert truth['429'] == low['429'] == '0 %' and backoff['429'] != '0 %'
    assert float(truth['USED'].split()[0]) > 99 and 45 < float(low['USED'].split()[0]) < 55
    assert truth['RECOVERED'] == '-'
    assert 'a (2)' in said.out.split('\n\n')[1]
    assert said.out == (await cli.good('sim', path)).out
    assert said.out == (await cli.good('sim', path, '--seed', '1')).out
    assert said.out != (await cli.good('sim', path, '--seed', '2')).out


@run
async def test_json_has_what_the_table_has(tmp_path):
    cli = Cli(None)
    path = written(tmp_path, 's.yaml', SMALL)
    document = json.loads((await cli.good('sim', '--json', '--seeds=3', '--policy', 'low,truth', path)).out)
    assert (document['scenario'], document['seeds'], document['duration_s']) == (path, 3, 60)
    assert [policy['policy'] for policy in document['policies']] == ['truth', 'low']
    truth = document['policies'][0]
    assert truth['refused'] == 0 and truth['changed'] is False and truth['recovered_s'] is None
    assert 0.99 < truth['used'] < 1.01 and truth['asked'] > 500
    assert [tenant['tenant'] for tenant in truth['tenants']] == ['a', 'b']


@run
async def test_a_picture(tmp_path):
    cli = Cli(None)
    path = written(tmp_path, 's.yaml', SMALL)
    for name in ('one.svg', 'two.svg'):
        await cli.good('sim', path, '--svg', str(tmp_path / name))
    assert (tmp_path / 'one.svg').read_bytes() == (tmp_path / 'two.svg').read_bytes()
    root = xml.etree.ElementTree.parse(tmp_path / 'one.svg').getroot()
    assert root.tag == '{http://www.w3.org/2000/svg}svg'
    texts = [element.text for element in root.iter('{http://www.w3.org/2000/svg}text')]
    assert {'truth', 'low', 'backoff', 'Refused', 'In line'} <= set(texts)
    said = await cli('sim', path, '--svg', '/nowhere/there.svg')
    assert said.complained(1, 'cannot write /nowhere/there.svg')


@run
async def test_a_shipped_scenario_can_be_printed_changed_and_run(tmp_path):
    cli = Cli(None)
    text = (await cli.good('sim', '--print', 'steady')).out
    path = written(tmp_path, 'mine.yaml', text.replace('10m', '2m') + 'policies: truth\n')
    assert len((await cli.good('sim', path)).rows) == 1
    (await cli('sim', '--print', path)).complained(2, '--print')


@run
async def test_a_trace_is_replayed(tmp_path):
    cli = Cli(None)
    rows = ''.join(f'{i / 10},{"ab"[i % 2]},100,20,\n' for i in range(600))
    trace = written(tmp_path, 't.csv', 'time,tenant,input,output,max_tokens\n' + rows)
    said = await cli.good('sim', '--trace', trace, '--policy', 'truth', '--json')
    policy = json.loads(said.out)['policies'][0]
    assert policy['refused'] == 0 and policy['served_share'] == 1
    assert [tenant['tenant'] for tenant in policy['tenants']] == ['a', 'b']
    bad = written(tmp_path, 'bad.csv', 'time,tenant,input,output\n1,a,many,3\n')
    (await cli('sim', '--trace', bad)).complained(1, 'bad.csv:2:5: input is "many"; expected a number')
    (await cli('sim', '--trace', '/nowhere')).complained(1, '/nowhere: cannot be read')


@run
async def test_recorded_events_are_replayed(tmp_path):
    cli = Cli(None)
    events = [{'type': 'gate.throttle', 'tenant': 'ab'[i % 2], 'cost': 900, 'timestamp': 1794802319000 + 100 * i}
              for i in range(50)]
    events += [{'type': 'gate.timeout', 'tenant': 'a', 'cost': 900, 'timestamp': 1794802320000},
               {'type': 'gate.refused', 'reason': 'line-full', 'tenant': '', 'cost': 0, 'timestamp': 1794802321000},
               {'type': 'gate.refused', 'reason': 'displaced', 'tenant': 'a', 'cost': 9, 'timestamp': 1794802321000}]
    path = written(tmp_path, 'events.jsonl', ''.join(json.dumps(event) + '\n' for event in events))
    said = await cli.good('sim', '--trace', path, '--policy', 'truth', '--json')
    policy = json.loads(said.out)['policies'][0]
    assert sorted(tenant['tenant'] for tenant in policy['tenants']) == ['a', 'anonymous', 'b']
    assert policy['served_share'] == 1
    bad = written(tmp_path, 'bad.jsonl', '{"type":"gate.throttle"}\n[1]\n')
    (await cli('sim', '--trace', bad)).complained(1, 'bad.jsonl:2:1: is not an event')


@run
async def test_what_is_wrong_is_told_with_its_line(tmp_path):
    cli = Cli(None)
    path = written(tmp_path, 'bad.yaml', SMALL + 'duraton: 5m\n')
    (await cli('sim', path)).complained(1, 'bad.yaml:7:1: duraton is no field', 'did you mean duration?')
    (await cli('sim', '/nowhere.yaml')).complained(1, '/nowhere.yaml: cannot be opened')
    for words, word in ((['--seeds', '0'], 'from 1 to 1000'), (['--policy', 'truth,nobody'], 'names of policies'),
                        (['--seed', '-1'], 'a number from 0'), (['steady', 'noisy'], 'one word too many')):
        (await cli('sim', *words)).complained(2, word)


@run
async def test_progress_is_drawn_on_a_terminal_only(tmp_path):
    path = written(tmp_path, 's.yaml', SMALL)
    main, side = pty.openpty()
    process = await Cli(None).start('sim', path, stderr=side)
    said = await ended(process)
    os.close(side)
    drawn = b''
    while not drawn.endswith(b'\x1b[K'):
        drawn += os.read(main, 65536)  # an error, if it ends otherwise
    os.close(main)
    drawn = drawn.decode()
    assert said.status == 0 and '\u2588' in drawn and 'backoff' in drawn


@run
async def test_jobs_live_through_crashes_the_same_each_time():
    cli = Cli(None)
    said = await cli.good('sim', 'jobs', '--seeds', '300')
    assert said.out.startswith('300 lives of 200 jobs from seed 1: no promise was broken\n')
    assert said.out == (await cli.good('sim', 'jobs', '--seeds', '300')).out
    one = json.loads((await cli.good('sim', 'jobs', '--seed', '7', '--jobs=50', '--json')).out)
    assert (one['seed'], one['seeds'], one['jobs']) == (7, 1, 50)
    assert 0 < one['accepted'] <= 50 and one['crashes'] > 0 and len(one['digest']) == 16
    other = json.loads((await cli.good('sim', 'jobs', '--seed', '8', '--jobs=50', '--json')).out)
    assert other['digest'] != one['digest']


@run
async def test_flags_of_jobs_and_of_scenarios_are_told_apart():
    cli = Cli(None)
    for words, word in ((['jobs', '--jobs', '0'], 'from 1 to 100000'), (['jobs', '--policy', 'truth'], '--seed'),
                        (['jobs', '--print'], '--json only'), (['jobs', '--svg', 'x'], '--json only'),
                        (['steady', '--jobs', '5'], 'weir sim jobs'), (['steady', '--seeds', '1001'], 'from 1 to 1000')):
        (await cli('sim', *words)).complained(2, word)


@run
async def test_shells_are_offered_the_scenarios():
    said = await Cli(None).good('complete', 'sim', 'st')
    assert [line.split('\t')[0] for line in said.out.splitlines()] == ['steady', 'streams']
    assert (await Cli(None).good('complete', 'sim', 'jo')).out.startswith('jobs\t')
