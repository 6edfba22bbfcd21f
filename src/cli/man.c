/* man.c - writes the manual page: the frame is here, the commands and flags come from their tables.
 */
#include "cli/man.h"

#include "cli/commands.h"
#include "weir/version.h"

/* The day on which the text below was last changed. */
#define DAY "November 16, 2026"

static const char description[] =
    ".Sh DESCRIPTION\n.Nm\nstands in front of backends that are scarce, slow and expensive, as a "
    "reverse proxy or by giving out\npermits.\nRequests that may not go yet wait in a fair line, "
    "and every permit comes back.\nThe gateway is\n.Nm Cm serve ,\nwith one config file; most "
    "other commands call the API of a running gateway.\n.Pp\nAn\n.Ar ADDRESS\nis host:port, "
    "[v6]:port or unix:/path, that of the API also http://host:port.\nA\n.Ar DURATION\nis a number "
    "with its unit, such as 500ms, 5s, 10m or 1h.\nA flag and its value may be joined by an equals "
    "sign, and behind\n.Ql \\-\\-\neverything is a word.\n";

static const char rest[] =
    ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n.It Ev WEIR_API\nWhere the API is, unless\n.Fl "
    "\\-api\nsays so.\n.It Ev WEIR_TOKEN\nThe token for the API, where the config has\n.Ql "
    "api_tokens .\nThere is no flag for it, because others on the machine could read that.\n.It Ev "
    "WEIR_PERMIT\nSet by\n.Nm Cm run\nfor the command that it runs: the id of the permit.\n.It Ev "
    "TMPDIR\nWhere\n.Nm Cm submit\nstores input from a pipe until it is sent, instead of "
    "/tmp.\n.It Ev MAX_CONCURRENT_REQUESTS , Ev QUEUE_TIMEOUT_SECONDS\nThe limit of gates that "
    "name none, instead of 10, and the timeout of their lines,\ninstead of 10 "
    "seconds.\n.El\n.Pp\nThe config file may refer to any other variable as ${NAME}.\n.Sh "
    "FILES\nNo file is read unless it is named: the config is an argument of\n.Nm Cm serve .\n.Sh "
    "EXIT STATUS\n.Bl -tag -width Ds\n.It 0\nDone.\n.It 1\nA failure; stderr says what to do.\n.It "
    "2\nA usage error; nothing was sent or started.\n.El\n.Pp\n.Nm Cm run\nexits as the command "
    "that it ran, and otherwise with\n.Bl -tag -width Ds\n.It 69\nThe gate gave no permit: the "
    "timeout, a full line, a server that drains.\n.It 126 , 127\nThe command cannot be run, or was "
    "not found.\n.It 128 + N\nSignal N ended the command.\n.El\n.Sh SIGNALS\n.Bl -tag -width "
    "Ds\n.It Dv SIGTERM , Dv SIGINT\nTo\n.Nm Cm serve :\nno new work is taken, what is in flight "
    "has the grace period to finish, and the status is 0.\nA second one ends it at once.\n.It Dv "
    "SIGHUP\nTo\n.Nm Cm serve :\nreloads its config, as\n.Nm Cm reload\ndoes.\nIf it has a "
    "mistake, nothing changes.\n.El\n.Pp\n.Nm Cm run\npasses\n.Dv SIGINT , SIGTERM , SIGHUP , "
    "SIGQUIT , SIGUSR1\nand\n.Dv SIGUSR2\non to its command.\nIf it is killed itself, the command "
    "gets a\n.Dv SIGTERM .\n.Sh EXAMPLES\nSay what is wrong with a config, then run the "
    "gateway:\n.Pp\n.Dl weir check weir.yaml && weir serve weir.yaml\n.Pp\nRun an agent, of which "
    "only as many run at once as its gate allows:\n.Pp\n.Dl weir run \\-\\-gate agents \\-\\-key "
    "agentB \\-\\-timeout 10m \\-\\- ./agent\n.Pp\nThe same with a permit that outlives the "
    "command:\n.Pp\n.Dl permit=$(weir acquire agents agentB \\-\\-lease 10m) || exit\n.Dl weir "
    "release agents agentB \\(dq$permit\\(dq\n.Pp\nMake jobs of the files of a folder, wait for "
    "all of them and keep their results:\n.Pp\n.Dl weir submit in/ \\-\\-id "
    "\\(aqnightly\\-{name}\\(aq \\-\\-wait \\-\\-output out/\n.Pp\nWatch who is inside and who "
    "waits:\n.Pp\n.Dl weir gates \\-\\-watch\n.Sh SEE ALSO\ndocs/reference/cli.md, "
    "docs/reference/config.md, docs/guides/jobs.md and docs/reference/api.md of the source.\n";

/* Writes text without anything that mdoc takes for a macro. Each sentence begins a line, as mdoc
 * wants it. */
static void put_text(FILE *out, const char *text)
{
    char before = '\n';
    for (; *text != '\0'; text++) {
        if (before == '\n' && *text == '.') {
            fputs("\\&", out);
        }
        switch (*text) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '`':
            fputs("\\(ga", out);
            break;
        case '\'':
            fputs("\\(aq", out);
            break;
        case ' ':
            fputc(before == '.' ? '\n' : ' ', out);
            break;
        default:
            fputc(*text, out);
        }
        before = *text;
    }
    fputc('\n', out);
}

static void put_flag(FILE *out, const struct weir_flag *flag)
{
    fprintf(out, ".It Fl \\-%s", flag->name + 2);
    if (flag->value[0] != '\0') {
        fprintf(out, " Ar %s", flag->value);
    }
    fputc('\n', out);
    put_text(out, flag->what);
}

static void put_command(FILE *out, const struct weir_command *command)
{
    const struct weir_flag *flag;
    fprintf(out, ".Ss weir %s%s", command->name, command->usage[0] == '\0' ? "" : " ");
    put_text(out, command->usage);
    put_text(out, command->what);
    fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; (flag = weir_flags_at(command, i)) != NULL; i++) {
        put_flag(out, flag);
    }
    fputs(".El\n", out);
}

void weir_man_print(FILE *out)
{
    fputs(".Dd " DAY "\n.Dt WEIR 1\n.Os Weir " WEIR_VERSION "\n"
          ".Sh NAME\n.Nm weir\n.Nd " WEIR_DOES "\n.Sh SYNOPSIS\n",
          out);
    for (const struct weir_command *const *each = weir_commands; *each != NULL; each++) {
        fprintf(out, ".Nm\n.Cm %s\n", (*each)->name);
        if ((*each)->usage[0] != '\0') {
            put_text(out, (*each)->usage);
        }
    }
    fputs(description, out);
    fputs(".Sh COMMANDS\n", out);
    for (const struct weir_command *const *each = weir_commands; *each != NULL; each++) {
        put_command(out, *each);
    }
    fputs(rest, out);
}
