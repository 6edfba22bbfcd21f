/* Writes the manual page: the commands and flags by their own tables, and the sections around them
 * from fixed text. What mdoc would take for a macro is escaped. */
#include "cli/man.h"

#include "cli/commands.h"
#include "weir/version.h"

/* The day on which the text below was last changed. */
#define DAY "November 16, 2026"

static const char description[] =
    ".Sh DESCRIPTION\n"
    ".Nm\n"
    "stands in front of what is scarce, slow and expensive, as a reverse proxy or by giving out\n"
    "permits.\n"
    "Who may not go yet waits in a fair line, and a permit that was given always comes back.\n"
    "The gateway is\n"
    ".Nm Cm serve ,\n"
    "with one config file; most other commands speak to the API of one that runs.\n"
    ".Pp\n"
    "An\n"
    ".Ar ADDRESS\n"
    "is host:port, [v6]:port or unix:/path, that of the API also http://host:port.\n"
    "A\n"
    ".Ar DURATION\n"
    "is a number with its unit, such as 500ms, 5s, 10m or 1h.\n"
    "A flag and its value may be joined by an equals sign, and behind\n"
    ".Ql \\-\\-\n"
    "everything is a word.\n";

static const char rest[] =
    ".Sh ENVIRONMENT\n"
    ".Bl -tag -width Ds\n"
    ".It Ev WEIR_API\n"
    "Where the API is, unless\n"
    ".Fl \\-api\n"
    "says so.\n"
    ".It Ev WEIR_TOKEN\n"
    "The token for the API, where the config has\n"
    ".Ql api_tokens .\n"
    "There is no flag for it, because others on the machine could read that.\n"
    ".It Ev WEIR_PERMIT\n"
    "Set by\n"
    ".Nm Cm run\n"
    "for the command that it runs: the id of the permit.\n"
    ".It Ev TMPDIR\n"
    "Where\n"
    ".Nm Cm submit\n"
    "keeps what it is given on a pipe until it is sent, instead of /tmp.\n"
    ".It Ev MAX_CONCURRENT_REQUESTS , Ev QUEUE_TIMEOUT_SECONDS\n"
    "The limit of gates that name none, instead of 10, and how long their lines may be waited in,\n"
    "instead of 10 seconds.\n"
    ".El\n"
    ".Pp\n"
    "The config file may refer to any other variable as ${NAME}.\n"
    ".Sh FILES\n"
    "There is no file that is read without being named: the config is an argument of\n"
    ".Nm Cm serve .\n"
    ".Sh EXIT STATUS\n"
    ".Bl -tag -width Ds\n"
    ".It 0\n"
    "Done.\n"
    ".It 1\n"
    "It went wrong, and stderr says what to do.\n"
    ".It 2\n"
    "A wrong call; nothing was asked or started.\n"
    ".El\n"
    ".Pp\n"
    ".Nm Cm run\n"
    "exits as the command that it ran, and otherwise with\n"
    ".Bl -tag -width Ds\n"
    ".It 69\n"
    "The gate gave no permit: the timeout, a full line, a server that drains.\n"
    ".It 126 , 127\n"
    "The command cannot be run; it cannot be found.\n"
    ".It 128 + N\n"
    "Signal N ended the command.\n"
    ".El\n"
    ".Sh SIGNALS\n"
    ".Bl -tag -width Ds\n"
    ".It Dv SIGTERM , Dv SIGINT\n"
    "To\n"
    ".Nm Cm serve :\n"
    "no new work is taken, what is in flight has the grace period to finish, and the status is 0.\n"
    "A second one ends it at once.\n"
    ".It Dv SIGHUP\n"
    "To\n"
    ".Nm Cm serve :\n"
    "takes up its config anew, as\n"
    ".Nm Cm reload\n"
    "does.\n"
    "If anything is wrong with it, nothing changes.\n"
    ".El\n"
    ".Pp\n"
    ".Nm Cm run\n"
    "passes\n"
    ".Dv SIGINT , SIGTERM , SIGHUP , SIGQUIT , SIGUSR1\n"
    "and\n"
    ".Dv SIGUSR2\n"
    "on to its command.\n"
    "If it is killed itself, the command gets a\n"
    ".Dv SIGTERM .\n"
    ".Sh EXAMPLES\n"
    "Say what is wrong with a config, then run the gateway:\n"
    ".Pp\n"
    ".Dl weir check weir.yaml && weir serve weir.yaml\n"
    ".Pp\n"
    "Run an agent of which as many run at once as its gate allows, wherever they are started:\n"
    ".Pp\n"
    ".Dl weir run \\-\\-gate agents \\-\\-key agentB \\-\\-timeout 10m \\-\\- ./agent\n"
    ".Pp\n"
    "The same with a permit that outlives the command:\n"
    ".Pp\n"
    ".Dl permit=$(weir acquire agents agentB \\-\\-lease 10m) || exit\n"
    ".Dl weir release agents agentB \\(dq$permit\\(dq\n"
    ".Pp\n"
    "Make jobs of the files of a folder, wait for all of them and keep their results:\n"
    ".Pp\n"
    ".Dl weir submit in/ \\-\\-id \\(aqnightly\\-{name}\\(aq \\-\\-wait \\-\\-output out/\n"
    ".Pp\n"
    "Watch who is inside and who waits:\n"
    ".Pp\n"
    ".Dl weir gates \\-\\-watch\n"
    ".Sh SEE ALSO\n"
    "docs/reference/cli.md, docs/reference/config.md, docs/guides/jobs.md and "
    "docs/reference/api.md of the source.\n";

/* Text as it is, with nothing in it that is a command to who formats it. A sentence begins a line,
 * as formatters like it. */
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
