"""Whether the history checker finds what it is there to find: histories that cannot be, each wrong in one thing."""
import json

import pytest
from history import History, digest, read_ledger

BODY = b'a body'
OTHER = b'another one'


class Story:
    """A made-up history of one job, right unless it is changed."""

    def __init__(self, state='done', attempts=1, submitted=True):
        self.history = History()
        self.listed = [{'id': 'j', 'state': state, 'attempts': attempts, 'body_bytes': len(BODY)}]
        self.results = {'j': self.result()}
        self.ledger = {'j': ['run1']}
        if submitted:
            self.tell('submit', 202, BODY)

    @staticmethod
    def result(**changed):
        return json.dumps({'id': 'j', 'attempt': 1, 'run': 'run1', 'digest': digest(BODY), **changed}).encode()

    def tell(self, kind, answer, body=None, state=None):
        request = self.history.begin(kind, 'j', body)
        if answer is not None:
            self.history.end(request, answer, state)
        return request

    def wrong(self):
        return self.history.wrong(self.listed, self.results, self.ledger)


def test_a_job_that_was_accepted_and_done_is_right():
    story = Story()
    story.tell('submit', 200, BODY)
    story.tell('submit', 409, OTHER)
    story.tell('look', 200, state='done')
    assert story.wrong() == []


@pytest.mark.parametrize('state', ['queued', 'running', 'done'])
def test_it_may_be_in_any_state_by_itself(state):
    assert Story(state).wrong() == []


def test_a_lost_job_is_found():
    story = Story()
    story.listed = []
    assert story.wrong() == ['j: lost']


def test_a_job_that_was_accepted_but_in_the_second_answer_only_is_not_lost_either():
    story = Story(submitted=False)
    story.tell('submit', None, BODY)
    story.tell('submit', 200, BODY)
    story.listed = []
    assert story.wrong() == ['j: lost']


def test_a_doubled_job_is_found():
    story = Story()
    story.listed *= 2
    assert story.wrong() == ['j: listed 2 times']


def test_a_job_that_nobody_submitted_is_found():
    story = Story()
    story.listed.append({**story.listed[0], 'id': 'ghost'})
    assert story.wrong() == ['ghost: nobody ever submitted it']


def test_a_job_that_was_lost_and_submitted_again_is_found():
    story = Story()
    story.tell('submit', 202, BODY)
    assert story.wrong() == ['j: accepted as new a second time: it had been forgotten']


def test_two_submissions_at_once_may_both_be_new_to_their_clients():
    story = Story(submitted=False)
    one, two = story.tell('submit', None, BODY), story.tell('submit', None, BODY)
    story.history.end(one, 202)
    story.history.end(two, 202)
    assert story.wrong() == []


def test_a_job_that_was_not_found_after_it_was_accepted_is_told():
    story = Story()
    story.tell('look', 404)
    assert story.wrong() == ['j: not found after it was accepted']


def test_a_question_that_was_asked_before_the_answer_may_find_nothing():
    story = Story(submitted=False)
    look = story.tell('look', None)
    story.tell('submit', 202, BODY)
    story.history.end(look, 404)
    assert story.wrong() == []


def test_two_bodies_under_one_id_are_found():
    story = Story()
    story.tell('submit', 200, OTHER)
    assert story.wrong() == ['j: accepted with two bodies']


def test_a_refusal_of_the_same_body_is_found():
    story = Story()
    story.tell('submit', 409, BODY)
    assert story.wrong() == ['j: refused, though it is the body that was accepted']


@pytest.mark.parametrize('answer', [None, 503, 429])
def test_what_was_not_accepted_may_be_there_or_not(answer):
    story = Story(submitted=False)
    story.tell('submit', answer, BODY)
    assert story.wrong() == []
    story.listed = []
    assert story.wrong() == []


def test_what_was_not_accepted_is_never_there_with_another_body():
    story = Story(submitted=False)
    story.tell('submit', None, BODY)
    story.listed[0]['body_bytes'] += 1
    assert story.wrong() == ['j: its body is of another length than any that was sent']


def test_a_command_that_was_given_another_body_is_found():
    story = Story()
    story.results['j'] = story.result(digest=digest(OTHER))
    assert story.wrong() == ['j: the command was given another body']


def test_the_result_of_another_job_is_found():
    story = Story()
    story.results['j'] = story.result(id='k')
    assert story.wrong() == ['j: the result is that of k']


def test_a_result_that_is_missing_is_found():
    story = Story()
    story.results = {}
    assert story.wrong() == ['j: done without the result of its command']


def test_a_stale_completion_is_found_by_its_attempt():
    story = Story(attempts=2)
    assert story.wrong() == ['j: the result of attempt 1, and attempt 2 is on record']


def test_a_stale_completion_is_found_by_the_ledger():
    story = Story()
    story.ledger['j'].append('run2')
    assert story.wrong() == ['j: the result of a run that had been given up']


def test_a_result_of_a_run_that_never_began_is_found():
    story = Story()
    story.ledger = {}
    assert story.wrong() == ['j: the result of a run that never began']


def test_a_route_keeps_no_ledger():
    story = Story()
    story.results['j'] = json.dumps({'id': 'j', 'digest': digest(BODY)}).encode()
    story.ledger = {}
    assert story.wrong() == []


def test_a_job_that_was_over_stays_over():
    for state in ('done', 'cancelled', 'failed'):
        story = Story('running')
        story.tell('cancel', 200, state='running')
        story.tell('look', 200, state=state)
        assert story.wrong() == [f'j: {state} once, and running in the end']


def test_a_dead_letter_runs_again_when_it_is_redriven():
    story = Story('running')
    story.tell('look', 200, state='failed')
    story.tell('redrive', None)
    assert story.wrong() == []


def test_a_redrive_that_was_refused_explains_nothing():
    story = Story('running')
    story.tell('look', 200, state='failed')
    story.tell('redrive', 409)
    assert story.wrong() == ['j: failed once, and running in the end']


def test_a_redrive_before_it_failed_again_explains_nothing():
    story = Story('running')
    story.tell('redrive', 200)
    story.tell('look', 200, state='failed')
    assert story.wrong() == ['j: failed once, and running in the end']


def test_a_job_that_nobody_cancelled_is_found():
    story = Story('cancelled')
    assert story.wrong() == ['j: cancelled by nobody']
    story.tell('cancel', 409)
    assert story.wrong() == ['j: cancelled by nobody']
    story.tell('cancel', None)
    assert story.wrong() == []


def test_a_dead_letter_has_a_reason():
    story = Story('failed')
    assert story.wrong() == ['j: dead without a reason']
    story.listed[0]['error'] = 'exit status 1'
    assert story.wrong() == []


def test_a_removed_dead_letter_is_gone():
    story = Story('failed')
    story.listed[0]['error'] = 'exit status 1'
    story.tell('remove', 200)
    assert story.wrong() == ['j: listed after it was removed']
    story.listed = []
    story.tell('look', 404)
    assert story.wrong() == []


@pytest.mark.parametrize('answer', [None, 503, 202])
def test_a_batch_of_which_a_part_is_there_is_found(answer):
    story = Story('queued', submitted=False)
    for request in story.history.begin_batch([('i', BODY), ('j', BODY)]):
        if answer:
            story.history.end(request, answer)
    torn = 'i: not there, though j is, which was submitted together with it'
    assert torn in story.wrong()
    story.listed.append({**story.listed[0], 'id': 'i'})
    assert story.wrong() == []
    if answer != 202:  # all or nothing
        story.listed = []
        assert story.wrong() == []


def test_what_was_submitted_again_by_itself_or_removed_is_no_witness_of_its_batch():
    story = Story('queued', submitted=False)
    story.history.begin_batch([('i', BODY), ('j', BODY)])
    story.tell('submit', 202, BODY)
    assert story.wrong() == []
    story = Story('queued', submitted=False)
    story.history.begin_batch([('i', BODY), ('j', BODY)])
    story.history.begin('remove', 'i')
    assert story.wrong() == []


def test_a_state_that_is_none_is_found():
    assert Story('lost').wrong() == ["j: its state is lost"]


def test_the_ledger_is_read_in_order(tmp_path):
    path = tmp_path / 'ledger'
    assert read_ledger(path) == {}
    path.write_text('begin j 1 a\nbegin k 1 b\nbegin j 2 c\n')
    assert read_ledger(path) == {'j': ['a', 'c'], 'k': ['b']}
