#include "lab/sim/number.h"

#include <assert.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

static_assert(DBL_MANT_DIG == 53, "doubles are those of IEEE 754");

#define LN2          0.69314718055994530942
#define SQRT2        1.41421356237309504880
#define EXPONENT_MAX 700.0

/* 2 to the power of k, for the exponents of normal numbers. */
static double power_of_two(int k)
{
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x = m * 2^k with m in 1 .. 2. Numbers too small to be normal are scaled up first. */
static double split(double x, int *k)
{
    int scaled = 0;
    if (x < DBL_MIN) {
        x *= power_of_two(60);
        scaled = 60;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    *k = (int)(bits >> 52) - 1023 - scaled;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ln m = 2 artanh((m-1)/(m+1)), whose series falls by a factor of 34 a term on 0.7 .. 1.4. */
double weir_sim_log(double x)
{
    assert(x > 0);
    assert(x <= DBL_MAX);
    int k;
    double m = split(x, &k);
    if (m > SQRT2) {
        m /= 2;
        k++;
    }
    double s = (m - 1) / (m + 1);
    double square = s * s;
    double sum = 0;
    for (int n = 21; n >= 1; n -= 2) {
        sum = sum * square + 1.0 / n;
    }
    return 2 * s * sum + k * LN2;
}

double weir_sim_exp(double x)
{
    x = weir_sim_clamp(x, -EXPONENT_MAX, EXPONENT_MAX);
    double turns = x / LN2;
    int k = (int)(turns < 0 ? turns - 0.5 : turns + 0.5);
    double rest = x - k * LN2;
    double sum = 1;
    for (int n = 16; n >= 1; n--) {
        sum = 1 + sum * rest / n;
    }
    return sum * power_of_two(k);
}

double weir_sim_sqrt(double x)
{
    assert(x >= 0);
    if (x == 0) {
        return 0;
    }
    double root = weir_sim_exp(weir_sim_log(x) / 2);
    return (root + x / root) / 2; /* one step of Newton's makes up for what the two lost */
}
