"""What the benchmarks of servers share: processes that are started and ended here, their CPU time,
wrk's reports, and arguments."""
import contextlib
import http.client
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BODY = 'x' * 127 + '.'
CORES = sorted(os.sched_getaffinity(0))
TICKS_PER_SECOND = os.sysconf('SC_CLK_TCK')
START_SECONDS = 10


class NotMeasured(Exception):
    """Something did not start, stopped too early or could not be read."""


class Process:
    """A server that was started here, and ends here."""

    def __init__(self, name, folder, port, arguments, config, cores):
        self.name, self.port = name, port
        if config is not None:
            (folder / 'config').write_text(config)
            arguments = [*arguments, str(folder / 'config')]
        self.log = folder / 'log'
        with pinned(cores), self.log.open('w') as log:
            # In a session of its own, so that Ctrl-C reaches it through stop() only.
            try:
                self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log,
                                                stderr=log, start_new_session=True)
            except OSError as error:
                raise NotMeasured(f'{name} does not start: {error}') from error

    def wait_until_it_answers(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                connection = http.client.HTTPConnection('127.0.0.1', self.port,
                                                        timeout=START_SECONDS)
                connection.request('GET', '/')
                reply = connection.getresponse()
                body = reply.read().decode()
                connection.close()
                if reply.status != 200 or body != BODY:
                    raise NotMeasured(f'{self.name} answers {reply.status}: {body[:200]}')
                return
            except (OSError, http.client.HTTPException) as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise NotMeasured(f'{self.name} does not start: {error}\n'
                                      f'{self.log.read_text()}') from error
                time.sleep(0.02)

    def ids(self):
        """The process and its children: nginx has its workers there."""
        main = self.process.pid
        children = pathlib.Path(f'/proc/{main}/task/{main}/children').read_text().split()
        return [main, *map(int, children)]

    def ticks(self):
        """CPU time so far in user space and in the kernel, over all threads."""
        total = [0, 0]
        try:
            for number in self.ids():
                stat = pathlib.Path(f'/proc/{number}/stat').read_text()
                fields = stat.rpartition(')')[2].split()  # from the third on, the state
                total[0] += int(fields[11])
                total[1] += int(fields[12])
        except OSError as error:
            raise NotMeasured(f'{self.name} has ended\n{self.log.read_text()}') from error
        return total

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def pinned(cores):
    """Whatever is started meanwhile runs on these cores."""
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, CORES)


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def path_of(program):
    """Daemons are in a folder that is not on everybody's PATH."""
    found = shutil.which(program, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if found is None:
        print(f'{program} is not installed; tools/deps installs it.', file=sys.stderr)
        sys.exit(77)
    return found


# ---- the upstream of all

def nginx_frame(folder, workers, inside):
    """What any nginx needs to run from a folder of its own."""
    places = '\n'.join(f'    {kind}_temp_path {folder}/{kind};'
                       for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
    return f'''daemon off;
pid {folder}/pid;
error_log stderr crit;
worker_processes {workers};
{'user root;' if os.getuid() == 0 else ''}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
{places}
{inside}
}}
'''


def upstream_config(port, folder):
    return 'master_process off;\n' + nginx_frame(folder, 1, f'''
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{ default_type text/plain; return 200 "{BODY}"; }}
    }}''')


def start_upstream(folder):
    """An nginx that answers at once."""
    place = folder / 'upstream'
    place.mkdir()
    port = free_port()
    return Process('the upstream', place, port,
                   [path_of('nginx'), '-p', str(place), '-e', 'stderr', '-c'],
                   upstream_config(port, place), CORES)


# ---- what wrk reports

UNITS_MS = {'us': 0.001, 'ms': 1, 's': 1000, 'm': 60000}


def percentile_ms(report, percent):
    # wrk fills up a unit of one letter with a space.
    found = re.search(rf'^ *{percent}% +([\d.]+)(us|ms|s|m) *$', report, flags=re.M)
    if found is None:
        raise NotMeasured(f'this report of wrk cannot be read:\n{report}')
    return float(found[1]) * UNITS_MS[found[2]]


def faults_of(report):
    """The lines in which wrk tells of errors; it prints none of them when there were none."""
    return ', '.join(line.strip() for line in report.splitlines()
                     if re.match(r' *(Socket errors|Non-2xx)', line))


# ---- a whole program

def programs_of(parser, given, others):
    """Paths by labels, of what --program was given. The labels differ from those of the others."""
    programs = {}
    for program in given or [str(ROOT / 'build' / 'weir')]:
        label, _, path = program.partition('=')
        if not path or '/' in label:
            label, path = 'weir', program
        if label in programs or label in others or label == '':
            parser.error(f'--program {program}: give each its own LABEL=PATH')
        programs[label] = path
    return programs


def run_main(main):
    """Runs it with as many descriptors as may be; whatever ends it, what was started is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except NotMeasured as error:
        print(error, file=sys.stderr)
        sys.exit(1)
