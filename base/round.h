/* SPDX-License-Identifier: Apache-2.0 */
/* Integer division that rounds up. */
#ifndef BASE_ROUND_H
#define BASE_ROUND_H

#include <stdint.h>

/* V / BY, rounded up; BY is positive. */
static inline int64_t ceil_div(int64_t v, int64_t by)
{
	return v / by + (v % by > 0);
}
/* The least multiple of TO, which is positive, that is not less than V. */
static inline int64_t round_up(int64_t v, int64_t to) { return ceil_div(v, to) * to; }

#endif
