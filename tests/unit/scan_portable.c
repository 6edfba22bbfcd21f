/* The tests of scan.c for machines without SSE2. */
#define WEIR_SCAN_PORTABLE
#include "unit/scan.c"
