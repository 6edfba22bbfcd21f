"""What clients of durable jobs have seen, and whether all of it can be true at once.

A History is told of every request when it begins and when it is answered, if it ever is. Commands write to a ledger,
outside of Weir's data, when they begin and when they end. In the end, wrong() compares both with what Weir lists:

- What was accepted is there exactly once, in one of five states, and with the body that was accepted. It was there
  all the time: no later submission of it was new, no later question found nothing.
- What was not accepted may be there, if nobody knows, but never with a body that nobody sent.
- A result is that of the last run that was begun, and of the attempt on record: no run that had been given up
  was believed.
- What is over stays over: done, cancelled or dead, unless somebody redrove it.
- Of what was submitted together all is there or nothing, though nobody knows which.

It knows nothing of HTTP; tests/system/job_load.py tells it what happens there."""
import collections
import hashlib
import json

STATES = {'queued', 'running', 'done', 'failed', 'cancelled'}
ACCEPTED = (200, 202)


def digest(body):
    return hashlib.sha256(body).hexdigest()


class Request:
    """One that was begun. `answer` stays None if nobody knows what came of it."""

    def __init__(self, kind, begun, **fields):
        self.kind, self.begun = kind, begun
        self.ended = None
        self.answer = None
        self.state = None  # that the answer named
        self.__dict__.update(fields)

    def before(self, other):
        """Whether it was answered before the other one began."""
        return self.ended is not None and self.ended < other.begun


class History:
    def __init__(self):
        self._clock = 0
        self._requests = collections.defaultdict(list)  # by id
        self._bodies = {}                               # by digest: how long
        self._batches = []                              # ids that were submitted together

    def _tick(self):
        self._clock += 1
        return self._clock

    def begin(self, kind, job, body=None):
        """`kind` is submit, cancel, redrive, remove or look."""
        known = {}
        if body is not None:
            known['digest'] = digest(body)
            self._bodies[known['digest']] = len(body)
        request = Request(kind, self._tick(), job=job, **known)
        self._requests[job].append(request)
        return request

    def begin_batch(self, jobs):
        """`jobs`: (id, body). The submission of each."""
        self._batches.append([job for job, _ in jobs])
        return [self.begin('submit', job, body) for job, body in jobs]

    def end(self, request, answer, state=None):
        request.answer, request.state = answer, state
        request.ended = self._tick()

    def accepted(self):
        """The ids that Weir has said it has, and the digests of their bodies."""
        return {job: one.digest for job, requests in self._requests.items() for one in requests
                if one.kind == 'submit' and one.answer in ACCEPTED}

    def counts(self):
        """How often each kind got each answer."""
        return collections.Counter((one.kind, one.answer) for requests in self._requests.values() for one in requests)

    def story(self, job):
        """What was asked about it and answered, in order."""
        told = [(one.begun, f'{one.begun}-{one.ended or ""}: {one.kind} {getattr(one, "digest", "")[:8]} -> {one.answer} '
                 f'{one.state or ""}') for one in self._requests[job]]
        return '\n'.join(line for _, line in sorted(told))

    # ---- the verdict

    def wrong(self, listed, results, ledger):
        """Sentences. `listed`: the documents of GET /jobs; `results`: the bytes of GET /result by id; `ledger`: what
        read_ledger() gives."""
        documents = collections.defaultdict(list)
        for document in listed:
            documents[document['id']].append(document)
        said = []
        for job in sorted(documents.keys() - self._requests.keys()):
            said.append(f'{job}: nobody ever submitted it')
        for job, requests in sorted(self._requests.items()):
            judge = _Judge(job, requests, self._bodies)
            judge.answers()
            judge.listing(documents.get(job, []))
            for document in documents.get(job, [])[:1]:
                judge.end(document)
                judge.result(document, results.get(job), ledger.get(job, []))
            said += judge.said
        return said + self._torn(documents)

    def _torn(self, documents):
        """Batches of which a part is there. Whoever was submitted by itself as well, or removed, is no witness."""
        said = []
        for batch in self._batches:
            kinds = {job: [one.kind for one in self._requests[job]] for job in batch}
            witnesses = [job for job in batch if kinds[job].count('submit') == 1 and 'remove' not in kinds[job]]
            missing = [job for job in witnesses if job not in documents]
            there = [job for job in witnesses if job in documents]
            if missing and there:
                said.append(f'{missing[0]}: not there, though {there[0]} is, which was submitted together with it')
        return said


class _Judge:
    """Of one job."""

    def __init__(self, job, requests, bodies):
        self.job, self.requests, self.bodies = job, requests, bodies
        self.submits = [one for one in requests if one.kind == 'submit']
        self.said = []
        self.taken = {one.digest for one in self.submits if one.answer in ACCEPTED}
        self.possible = self.taken or {one.digest for one in self.submits if one.answer != 409}

    def say(self, what):
        self.said.append(f'{self.job}: {what}')

    def asked(self, kind):
        """Whether somebody did so, and it was not refused. Of what failed (503) nobody knows."""
        return [one for one in self.requests if one.kind == kind and one.answer in (None, 200, 503)]

    def answers(self):
        if len(self.taken) > 1:
            self.say('accepted with two bodies')
        for one in self.submits:
            if one.answer == 409 and any(other.digest == one.digest and other.answer in ACCEPTED and other.before(one)
                                         for other in self.submits):
                self.say('refused, though it is the body that was accepted')
        first = next((one for one in sorted(self.submits, key=lambda one: one.ended or 0)
                      if one.answer in ACCEPTED), None)
        if first is None:
            return
        for later in self.requests:
            if not first.before(later):
                continue
            if later.kind == 'submit' and later.answer == 202:
                self.say('accepted as new a second time: it had been forgotten')
            if later.kind in ('look', 'cancel') and later.answer == 404 and not self.asked('remove'):
                self.say('not found after it was accepted')

    def listing(self, documents):
        if len(documents) > 1:
            self.say(f'listed {len(documents)} times')
        removed = self.asked('remove')
        if not documents and self.taken and not removed:
            self.say('lost')
        if documents and any(one.answer == 200 for one in removed):
            self.say('listed after it was removed')
        for document in documents:
            if not self.possible:
                self.say('listed, though every submission was refused')
            elif document['body_bytes'] not in {self.bodies[one] for one in self.possible}:
                self.say('its body is of another length than any that was sent')

    def end(self, document):
        state = document['state']
        if state not in STATES:
            self.say(f'its state is {state}')
        if state == 'cancelled' and not self.asked('cancel'):
            self.say('cancelled by nobody')
        if state == 'failed' and not document.get('error'):
            self.say('dead without a reason')
        # What somebody has been told is over.
        redrives = self.asked('redrive')
        for one in self.requests:
            over = one.answer == 200 and one.state in ('done', 'failed', 'cancelled')
            undone = one.state == 'failed' and any(not redrive.ended or redrive.ended > one.begun for redrive in redrives)
            if over and not undone and one.state != state:
                self.say(f'{one.state} once, and {state} in the end')

    def result(self, document, result, runs):
        if document['state'] != 'done':
            return
        try:
            said = json.loads(result or b'')
        except ValueError:
            self.say('done without the result of its command')
            return
        if said['digest'] not in self.possible:
            self.say('the command was given another body')
        if said['id'] != self.job:
            self.say(f'the result is that of {said["id"]}')
        if 'run' not in said:  # a route's, which keeps no ledger
            return
        if said['attempt'] != document['attempts']:
            self.say(f'the result of attempt {said["attempt"]}, and attempt {document["attempts"]} is on record')
        if said['run'] not in runs:
            self.say('the result of a run that never began')
        elif said['run'] != runs[-1]:
            self.say('the result of a run that had been given up')


def read_ledger(path):
    """Which runs of a job were begun, in order. A line is `begin ID ATTEMPT RUN`, appended by one write()."""
    runs = collections.defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        _, job, _, run = line.split(' ')
        runs[job].append(run)
    return runs
