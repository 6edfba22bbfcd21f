/* Writes SVG row by row. Scales are found over all policies first, so that a column has one;
 * coordinates have a fixed number of digits, so that the same study gives the same bytes. */
#include "lab/sim/plot.h"

#include "lab/sim/number.h"

#include <assert.h>
#include <string.h>

/* ---- the page ---- */

#define MARGIN        28
#define LABEL_WIDTH   150
#define CELL_WIDTH    206
#define CELL_HEIGHT   74
#define CELL_GAP_X    22
#define CELL_GAP_Y    18
#define HEAD_HEIGHT   118
#define FOOT_HEIGHT   44
#define POINTS        103 /* of a curve: one for every two pixels */
#define TENANT_COLORS 8
#define MANY_TENANTS  12 /* more are shown by group */

enum column {
    COLUMN_RATE,
    COLUMN_REFUSED,
    COLUMN_WINDOW,
    COLUMN_LINE,
    COLUMN_SHARES,
    COLUMN_COUNT
};

static const char *const titles[COLUMN_COUNT] = {
    "Tokens a second", "Refused", "In flight and window", "In line", "Tenants\xe2\x80\x99 share"};

static const char *const hints[COLUMN_COUNT] = {
    "served, against what is allowed", "share of answers that were 429", "requests at once",
    "requests that wait", "of the tokens served"};

/* Colours as plain classes rather than variables, which not every program that shows an SVG knows.
 */
static const char style[] =
    "<style>\n"
    "text{font-family:Inter,system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica "
    "Neue\",Arial,sans-serif}\n"
    ".title{font-size:21px;font-weight:600}.about{font-size:13px}.head{font-size:12px;font-weight:"
    "600}\n"
    ".small{font-size:10.5px}.name{font-size:13.5px;font-weight:600}\n"
    ".figure{font-size:11px;font-variant-numeric:tabular-nums}\n"
    ".end{text-anchor:end}.middle{text-anchor:middle}\n"
    ".grid{stroke-width:1;fill:none}.mark{stroke-width:1;stroke-dasharray:1 3;fill:none}\n"
    ".curve{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}\n"
    ".true{fill:none;stroke-width:1.3;stroke-dasharray:4 "
    "3}.share{fill-opacity:.72;stroke-width:.4}.pale{fill-opacity:.4}\n"
    ".page{fill:#ffffff}.share{stroke:#ffffff}text{fill:#111827}\n"
    ".about,.small,.figure{fill:#6b7280}.grid{stroke:#e5e7eb}.mark{stroke:#6b7280}.cell{fill:#"
    "f8fafc}\n"
    ".rate{stroke:#2563eb}.rate-area{fill:#dbeafe}.true{stroke:#9ca3af}.ours{fill:#2563eb}\n"
    ".bad{fill:#dc2626}.refused{stroke:#dc2626}.refused-area{fill:#fee2e2}\n"
    ".window{stroke:#7c3aed}.flying{fill:#ddd6fe}.line{stroke:#0d9488}.line-area{fill:#ccfbf1}\n"
    ".t0{fill:#2563eb}.t1{fill:#f59e0b}.t2{fill:#10b981}.t3{fill:#ec4899}.t4{fill:#8b5cf6}.t5{fill:"
    "#0ea5e9}.t6{fill:#84cc16}.t7{fill:#94a3b8}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".page{fill:#0f172a}.share{stroke:#0f172a}text{fill:#f1f5f9}\n"
    ".about,.small,.figure{fill:#94a3b8}.grid{stroke:#273449}.mark{stroke:#94a3b8}.cell{fill:#"
    "141d31}\n"
    ".rate{stroke:#60a5fa}.rate-area{fill:#1e3a66}.true{stroke:#7c8ba1}.ours{fill:#60a5fa}\n"
    ".bad{fill:#f87171}.refused{stroke:#f87171}.refused-area{fill:#4c1d1d}\n"
    ".window{stroke:#a78bfa}.flying{fill:#3b3173}.line{stroke:#2dd4bf}.line-area{fill:#134e4a}\n"
    ".t0{fill:#60a5fa}.t1{fill:#fbbf24}.t2{fill:#34d399}.t3{fill:#f472b6}.t4{fill:#a78bfa}.t5{fill:"
    "#38bdf8}.t6{fill:#a3e635}.t7{fill:#64748b}\n"
    "}\n</style>\n";

/* ---- one policy's curves ---- */

/* A cell's curves, in the units of its column; `under` is a second one, drawn first. */
struct curves {
    double over[POINTS];
    double under[POINTS];
};

struct picture {
    const struct weir_sim_study *study;
    FILE *out;
    double most[COLUMN_COUNT]; /* at the top of a column's cells */
    uint32_t shown_tenants;    /* how many bands a share has */
    bool by_group;
};

static struct weir_slice tenant_name(const struct picture *picture, uint32_t band)
{
    const struct weir_sim_study *study = picture->study;
    if (picture->by_group) {
        return study->scenario->tenants[band].name;
    }
    return weir_slice_of(study->entries[0].world.demand.tenants[band].name);
}

/* The seconds that make up one point. */
struct plot_interval {
    uint32_t from;
    uint32_t until;
};

static struct plot_interval stretch_of(const struct weir_sim_measure *measure, uint32_t point)
{
    uint32_t from = (uint32_t)((uint64_t)point * measure->second_count / POINTS);
    uint32_t until = (uint32_t)((uint64_t)(point + 1) * measure->second_count / POINTS);
    return (struct plot_interval){from, until > from ? until : from + 1};
}

/* What one second contributes to a column: to the curve, and to the one under it. */
static void add_second(const struct weir_sim_second *second, enum column column, double *over,
                       double *under)
{
    switch (column) {
    case COLUMN_RATE:
        *over += second->accepted;
        *under += second->allowed;
        break;
    case COLUMN_REFUSED:
        *over += second->refused;
        *under += second->answers;
        break;
    case COLUMN_WINDOW:
        *over += second->window;
        *under += second->flying;
        break;
    default:
        *over += second->waiting;
        break;
    }
}

static void fill_curves(const struct weir_sim_measure *measure, enum column column,
                        struct curves *curves)
{
    for (uint32_t point = 0; point < POINTS; point++) {
        struct plot_interval stretch = stretch_of(measure, point);
        double over = 0;
        double under = 0;
        for (uint32_t i = stretch.from; i < stretch.until && i < measure->second_count; i++) {
            add_second(&measure->seconds[i], column, &over, &under);
        }
        double count = stretch.until - stretch.from;
        bool share = column == COLUMN_REFUSED;
        curves->over[point] = share ? (under > 0 ? over / under : 0) : over / count;
        curves->under[point] = share ? 0 : under / count;
    }
}

/* ---- scales ---- */

/* The least of 1, 2, 2.5, 5 and 10 times a power of ten that is not below. */
static double round_up(double x)
{
    static const double steps[] = {1, 1.5, 2, 3, 4, 5, 6, 8, 10};
    double power = 1;
    while (power * 10 <= x) {
        power *= 10;
    }
    while (power > x && power > 1e-9) {
        power /= 10;
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (x <= steps[i] * power * (1 + 1e-9)) {
            return steps[i] * power;
        }
    }
    return 10 * power;
}

/* A leap at the start, when a full bucket is spent, must not flatten all the rest, and neither must
 * a window that no requests fill: rates are cut at twice what is allowed, windows at half as much
 * again as was in flight after the warm-up. */
static void find_scales(struct picture *picture)
{
    struct curves curves;
    double allowed = 0;
    double flying = 0;
    for (uint32_t i = 0; i < picture->study->entry_count; i++) {
        const struct weir_sim_measure *measure = &picture->study->entries[i].world.measure;
        for (int column = 0; column < COLUMN_SHARES; column++) {
            fill_curves(measure, (enum column)column, &curves);
            for (uint32_t j = 0; j < POINTS; j++) {
                double most = weir_sim_most(curves.over[j], curves.under[j]);
                picture->most[column] = weir_sim_most(picture->most[column], most);
                if (column == COLUMN_RATE) {
                    allowed = weir_sim_most(allowed, curves.under[j]);
                }
                uint64_t at_ns = picture->study->scenario->duration_ns / POINTS * j;
                if (column == COLUMN_WINDOW && at_ns >= picture->study->scenario->warmup_ns) {
                    flying = weir_sim_most(flying, curves.under[j]);
                }
            }
        }
    }
    picture->most[COLUMN_RATE] = weir_sim_least(picture->most[COLUMN_RATE], 2 * allowed);
    picture->most[COLUMN_WINDOW] = weir_sim_least(picture->most[COLUMN_WINDOW], 1.5 * flying);
    picture->most[COLUMN_REFUSED] = weir_sim_most(picture->most[COLUMN_REFUSED], 0.01);
    for (int column = 0; column < COLUMN_SHARES; column++) {
        picture->most[column] = round_up(weir_sim_most(picture->most[column], 1e-3));
    }
    picture->most[COLUMN_REFUSED] = weir_sim_least(picture->most[COLUMN_REFUSED], 1);
    picture->most[COLUMN_SHARES] = 1;
}

/* ---- text ---- */

static void put_text(const struct picture *picture, struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        switch (c) {
        case '&':
            fputs("&amp;", picture->out);
            break;
        case '<':
            fputs("&lt;", picture->out);
            break;
        case '>':
            fputs("&gt;", picture->out);
            break;
        default:
            fputc((unsigned char)c < ' ' ? ' ' : c, picture->out);
        }
    }
}

struct shown {
    char text[32];
};

/* 16.7k, 1.5M, 40. */
static struct shown show_number(double x)
{
    struct shown shown;
    if (x >= 1e6) {
        snprintf(shown.text, sizeof shown.text, "%.3gM", x / 1e6);
    } else if (x >= 1e4) {
        snprintf(shown.text, sizeof shown.text, "%.3gk", x / 1e3);
    } else {
        snprintf(shown.text, sizeof shown.text, "%.4g", x);
    }
    return shown;
}

static struct shown show_percent(double share)
{
    struct shown shown;
    double percent = 100 * share;
    const char *format = percent >= 99.95 || percent == 0 ? "%.0f %%"
                         : percent >= 10                  ? "%.1f %%"
                                                          : "%.2g %%";
    snprintf(shown.text, sizeof shown.text, format, percent);
    return shown;
}

static struct shown show_scale(enum column column, double most)
{
    return column == COLUMN_REFUSED || column == COLUMN_SHARES ? show_percent(most)
                                                               : show_number(most);
}

static struct shown show_seconds(double seconds)
{
    struct shown shown;
    if (seconds == 0) {
        return (struct shown){"0 s"};
    }
    if (seconds < 0.9995) {
        snprintf(shown.text, sizeof shown.text, "%.0f ms", seconds * 1000);
    } else {
        snprintf(shown.text, sizeof shown.text, seconds < 99.95 ? "%.1f s" : "%.0f s", seconds);
    }
    return shown;
}

/* ---- cells ---- */

struct corner {
    double x;
    double y;
};

static struct corner corner_of(uint32_t row, uint32_t column)
{
    return (struct corner){
        MARGIN + LABEL_WIDTH + column * (CELL_WIDTH + CELL_GAP_X),
        HEAD_HEIGHT + row * (CELL_HEIGHT + CELL_GAP_Y),
    };
}

static double x_of(struct corner corner, uint32_t point)
{
    return corner.x + (double)CELL_WIDTH * point / (POINTS - 1);
}

static double y_of(struct corner corner, double value, double most)
{
    return corner.y + CELL_HEIGHT * (1 - weir_sim_clamp(value / most, 0, 1));
}

static void draw_line(const struct picture *picture, struct corner corner, const double *values,
                      double most, const char *attributes)
{
    fprintf(picture->out, "<path %s d=\"", attributes);
    for (uint32_t i = 0; i < POINTS; i++) {
        fprintf(picture->out, "%s%.1f %.1f", i == 0 ? "M" : "L", x_of(corner, i),
                y_of(corner, values[i], most));
    }
    fputs("\"/>\n", picture->out);
}

/* The area between two curves; a null lower one is the bottom. */
static void draw_area(const struct picture *picture, struct corner corner, const double *upper,
                      const double *lower, double most, const char *attributes)
{
    fprintf(picture->out, "<path %s d=\"", attributes);
    for (uint32_t i = 0; i < POINTS; i++) {
        fprintf(picture->out, "%s%.1f %.1f", i == 0 ? "M" : "L", x_of(corner, i),
                y_of(corner, upper[i], most));
    }
    for (uint32_t i = POINTS; i-- > 0;) {
        fprintf(picture->out, "L%.1f %.1f", x_of(corner, i),
                y_of(corner, lower == NULL ? 0 : lower[i], most));
    }
    fputs("Z\"/>\n", picture->out);
}

static void draw_frame(const struct picture *picture, struct corner corner)
{
    fprintf(picture->out,
            "<rect class=\"cell\" x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n",
            corner.x, corner.y, CELL_WIDTH, CELL_HEIGHT);
    fprintf(picture->out, "<path class=\"grid\" d=\"M%.0f %.1fh%dM%.0f %.1fh%d\"/>\n", corner.x,
            corner.y + CELL_HEIGHT / 2.0, CELL_WIDTH, corner.x, corner.y + CELL_HEIGHT + 0.5,
            CELL_WIDTH);
    const struct weir_sim_scenario *scenario = picture->study->scenario;
    for (uint32_t i = 0; i < scenario->change_count; i++) {
        double share = (double)scenario->changes[i].at_ns / (double)scenario->duration_ns;
        if (share <= 1) {
            fprintf(picture->out, "<path class=\"mark\" d=\"M%.1f %.0fv%d\"/>\n",
                    corner.x + share * CELL_WIDTH, corner.y, CELL_HEIGHT);
        }
    }
}

static void draw_curves(const struct picture *picture, struct corner corner, enum column column,
                        const struct weir_sim_measure *measure)
{
    struct curves curves;
    double most = picture->most[column];
    fill_curves(measure, column, &curves);
    switch (column) {
    case COLUMN_RATE:
        draw_area(picture, corner, curves.over, NULL, most, "class=\"rate-area\"");
        draw_line(picture, corner, curves.under, most, "class=\"true\"");
        draw_line(picture, corner, curves.over, most, "class=\"curve rate\"");
        break;
    case COLUMN_REFUSED:
        draw_area(picture, corner, curves.over, NULL, most, "class=\"refused-area\"");
        draw_line(picture, corner, curves.over, most, "class=\"curve refused\"");
        break;
    case COLUMN_WINDOW:
        draw_area(picture, corner, curves.under, NULL, most, "class=\"flying\"");
        if (curves.over[POINTS / 2] > 0) {
            draw_line(picture, corner, curves.over, most, "class=\"curve window\"");
        }
        break;
    default:
        draw_area(picture, corner, curves.over, NULL, most, "class=\"line-area\"");
        draw_line(picture, corner, curves.over, most, "class=\"curve line\"");
    }
}

/* The share of bands 0 .. `band` in what was served around a point. */
static double stacked(const struct picture *picture, const struct weir_sim_measure *measure,
                      uint32_t bin, uint32_t band)
{
    const struct weir_sim_demand *demand = measure->demand;
    const double *tokens = &measure->shares[(size_t)bin * demand->tenant_count];
    double below = 0;
    double all = 0;
    for (uint32_t i = 0; i < demand->tenant_count; i++) {
        uint32_t own = picture->by_group ? demand->tenants[i].group : i;
        all += tokens[i];
        below += own <= band ? tokens[i] : 0;
    }
    return all > 0 ? below / all : 0;
}

/* Where there are several groups, all of one have its colour, with a hairline between them. */
static uint32_t color_of(const struct picture *picture, uint32_t band)
{
    bool groups = !picture->by_group && picture->study->scenario->tenant_count > 1;
    return groups ? picture->study->entries[0].world.demand.tenants[band].group : band;
}

static void draw_shares(const struct picture *picture, struct corner corner,
                        const struct weir_sim_measure *measure)
{
    double lower[POINTS] = {0};
    double upper[POINTS];
    for (uint32_t band = 0; band < picture->shown_tenants; band++) {
        char class[64];
        uint32_t color = color_of(picture, band);
        for (uint32_t i = 0; i < POINTS; i++) {
            upper[i] = stacked(picture, measure, i * WEIR_SIM_SHARE_BINS / POINTS, band);
        }
        snprintf(class, sizeof class, "class=\"share t%u%s\"", color % TENANT_COLORS,
                 color / TENANT_COLORS % 2 == 0 ? "" : " pale");
        draw_area(picture, corner, upper, lower, 1, class);
        memcpy(lower, upper, sizeof lower);
    }
}

/* ---- rows ---- */

static bool is_ours(const struct weir_sim_entry *entry)
{
    return weir_slice_of(entry->policy->name).bytes == 7 &&
           memcmp(entry->policy->name, "learned", 7) == 0;
}

static void draw_label(const struct picture *picture, uint32_t row)
{
    const struct weir_sim_entry *entry = &picture->study->entries[row];
    const struct weir_sim_result *result = &entry->result;
    double y = corner_of(row, 0).y;
    fprintf(picture->out, "<text class=\"name%s\" x=\"%d\" y=\"%.0f\">%s</text>\n",
            is_ours(entry) ? " ours" : "", MARGIN, y + 15, entry->policy->name);
    fprintf(picture->out, "<text class=\"figure\" x=\"%d\" y=\"%.0f\">%s used</text>\n", MARGIN,
            y + 33, show_percent(result->used).text);
    fprintf(picture->out, "<text class=\"figure%s\" x=\"%d\" y=\"%.0f\">%s refused</text>\n",
            result->refused_share > 0.01 ? " bad" : "", MARGIN, y + 49,
            show_percent(result->refused_share).text);
    fprintf(picture->out, "<text class=\"figure\" x=\"%d\" y=\"%.0f\">waits %s, p99 %s</text>\n",
            MARGIN, y + 65, show_seconds(result->wait_p50_s).text,
            show_seconds(result->wait_p99_s).text);
}

static void draw_row(const struct picture *picture, uint32_t row)
{
    const struct weir_sim_measure *measure = &picture->study->entries[row].world.measure;
    draw_label(picture, row);
    for (uint32_t column = 0; column < COLUMN_COUNT; column++) {
        struct corner corner = corner_of(row, column);
        draw_frame(picture, corner);
        if (column == COLUMN_SHARES) {
            draw_shares(picture, corner, measure);
        } else {
            draw_curves(picture, corner, (enum column)column, measure);
        }
    }
}

/* ---- head and foot ---- */

static uint32_t tenants_of(const struct weir_sim_scenario *scenario)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scenario->tenant_count; i++) {
        count += scenario->tenants[i].count;
    }
    return count;
}

static void draw_head(const struct picture *picture)
{
    const struct weir_sim_study *study = picture->study;
    const struct weir_sim_scenario *scenario = study->scenario;
    fprintf(picture->out, "<text class=\"title\" x=\"%d\" y=\"44\">", MARGIN);
    put_text(picture, scenario->name);
    fprintf(picture->out, "</text>\n<text class=\"about\" x=\"%d\" y=\"64\">", MARGIN);
    put_text(picture, scenario->about);
    uint32_t tenants = tenants_of(scenario);
    fprintf(picture->out, " \xc2\xb7 %u tenant%s", tenants, tenants == 1 ? "" : "s");
    if (scenario->instances > 1) {
        fprintf(picture->out, " \xc2\xb7 %u instances", scenario->instances);
    }
    fprintf(picture->out, " \xc2\xb7 seed %llu</text>\n", (unsigned long long)study->seed);
    for (uint32_t column = 0; column < COLUMN_COUNT; column++) {
        double x = corner_of(0, column).x;
        fprintf(picture->out, "<text class=\"head\" x=\"%.0f\" y=\"%d\">%s</text>\n", x,
                HEAD_HEIGHT - 22, titles[column]);
        fprintf(picture->out,
                "<text class=\"small end\" x=\"%.0f\" y=\"%d\">0 \xe2\x80\x93 %s</text>\n",
                x + CELL_WIDTH, HEAD_HEIGHT - 22,
                show_scale((enum column)column, picture->most[column]).text);
        fprintf(picture->out, "<text class=\"small\" x=\"%.0f\" y=\"%d\">%s</text>\n", x,
                HEAD_HEIGHT - 7, hints[column]);
    }
}

/* A step of 1, 2, 5, 10, 15 or 30 seconds, minutes or hours, with at most four of them. */
static uint64_t tick_seconds(uint64_t duration_s)
{
    static const uint64_t steps[] = {1,   2,   5,   10,   15,   30,   60,    120,
                                     300, 600, 900, 1800, 3600, 7200, 18000, 36000};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (duration_s / steps[i] <= 4) {
            return steps[i];
        }
    }
    return 86400;
}

static void draw_time(const struct picture *picture)
{
    const struct weir_sim_study *study = picture->study;
    uint64_t duration_s = study->scenario->duration_ns / WEIR_NS_PER_SECOND;
    uint64_t step = tick_seconds(duration_s);
    uint64_t unit = step % 3600 == 0 ? 3600 : step % 60 == 0 ? 60 : 1;
    const char *name = unit == 3600 ? " h" : unit == 60 ? " min" : " s";
    for (uint32_t column = 0; column < COLUMN_COUNT; column++) {
        struct corner corner = corner_of(study->entry_count - 1, column);
        for (uint64_t t = 0; t <= duration_s; t += step) {
            double x = corner.x + (double)CELL_WIDTH * (double)t / (double)duration_s;
            const char *class = t == 0 ? "small" : "small middle";
            fprintf(picture->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.0f\">%llu%s</text>\n",
                    t + step > duration_s && t == duration_s ? "small end" : class, x,
                    corner.y + CELL_HEIGHT + 16, (unsigned long long)(t / unit),
                    t + step > duration_s ? name : "");
        }
    }
}

static void draw_tenants(const struct picture *picture, double y)
{
    double x = MARGIN + LABEL_WIDTH + 4 * (CELL_WIDTH + CELL_GAP_X);
    bool groups = picture->study->scenario->tenant_count > 1;
    uint32_t count = groups ? picture->study->scenario->tenant_count : picture->shown_tenants;
    for (uint32_t i = 0; i < (count < 4 ? count : 4); i++) {
        struct weir_slice name =
            groups ? picture->study->scenario->tenants[i].name : tenant_name(picture, i);
        name.bytes = name.bytes > 9 ? 9 : name.bytes;
        fprintf(
            picture->out,
            "<rect x=\"%.0f\" y=\"%.0f\" width=\"8\" height=\"8\" rx=\"2\" class=\"share t%u\"/>"
            "<text class=\"small\" x=\"%.0f\" y=\"%.0f\">",
            x, y - 8, i % TENANT_COLORS, x + 11, y);
        put_text(picture, name);
        fputs("</text>\n", picture->out);
        x += (double)CELL_WIDTH / 4 + 3;
    }
}

static void draw_key(const struct picture *picture, double y)
{
    double rate = MARGIN + LABEL_WIDTH;
    double window = rate + 2 * (CELL_WIDTH + CELL_GAP_X);
    fprintf(picture->out,
            "<path class=\"true\" d=\"M%.0f %.0fh18\"/>"
            "<text class=\"small\" x=\"%.0f\" y=\"%.0f\">allowed</text>\n",
            rate, y - 4, rate + 23, y);
    fprintf(picture->out,
            "<path class=\"curve rate\" d=\"M%.0f %.0fh18\"/>"
            "<text class=\"small\" x=\"%.0f\" y=\"%.0f\">served</text>\n",
            rate + 76, y - 4, rate + 99, y);
    fprintf(picture->out,
            "<rect x=\"%.0f\" y=\"%.0f\" width=\"8\" height=\"8\" rx=\"2\" class=\"flying\"/>"
            "<text class=\"small\" x=\"%.0f\" y=\"%.0f\">in flight</text>\n",
            window, y - 8, window + 12, y);
    fprintf(picture->out,
            "<path class=\"curve window\" d=\"M%.0f %.0fh18\"/>"
            "<text class=\"small\" x=\"%.0f\" y=\"%.0f\">window</text>\n",
            window + 70, y - 4, window + 93, y);
    draw_tenants(picture, y);
}

void weir_sim_plot(const struct weir_sim_study *study, FILE *out)
{
    assert(study->entry_count > 0);
    uint32_t tenants = study->entries[0].world.demand.tenant_count;
    struct picture picture = {.study = study, .out = out, .by_group = tenants > MANY_TENANTS};
    picture.shown_tenants = picture.by_group ? study->scenario->tenant_count : tenants;
    uint32_t width =
        2 * MARGIN + LABEL_WIDTH + COLUMN_COUNT * (CELL_WIDTH + CELL_GAP_X) - CELL_GAP_X;
    uint32_t bottom = HEAD_HEIGHT + study->entry_count * (CELL_HEIGHT + CELL_GAP_Y) - CELL_GAP_Y;
    uint32_t height = bottom + FOOT_HEIGHT + MARGIN / 2;
    find_scales(&picture);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" "
            "height=\"%u\" role=\"img\">\n<title>weir sim ",
            width, height, width, height);
    put_text(&picture, study->scenario->name);
    fprintf(out, "</title>\n%s<rect width=\"%u\" height=\"%u\" class=\"page\"/>\n", style, width,
            height);
    draw_head(&picture);
    for (uint32_t i = 0; i < study->entry_count; i++) {
        draw_row(&picture, i);
    }
    draw_time(&picture);
    draw_key(&picture, bottom + FOOT_HEIGHT);
    fputs("</svg>\n", out);
}
