/* SPDX-License-Identifier: Apache-2.0 */
/* The same as use.c, in C++. */
#include "first.h"
#include "other.h"

#include "dlrt.hpp"

#include <cstdio>

static void run(dl_get_api_fn get_api)
{
	const std::vector<float> x(64, 1.0f);
	dlrt::context context{dlrt::model(get_api)};
	dlrt::request request(context.of());

	request.in("x") = dlrt::tensor(x, {1, 64});
	context.run(request);
	std::printf("%g\n", static_cast<double>(request.out("y").as<float>()[0]));
}

int main()
{
	run(first_get_api);
	run(other_get_api);
	return 0;
}
