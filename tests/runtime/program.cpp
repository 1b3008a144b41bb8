/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in C++ over the model relu_mul: program LIBRARY. run.sh compiles it with the dlrt.h of
 * today and with a later one, and runs it with libraries of all versions.
 */
#include "dlrt.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	std::fprintf(stderr, "program.cpp: %s\n", what);
	std::exit(1);
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
	need(library, "dlopen");
	const auto get_api = reinterpret_cast<dl_get_api_fn>(dlsym(library, "relu_mul_get_api"));
	const std::vector<float> x{1, 2, 3, 4, -1, -2, -3, -4};
	float y[8], z[8];

	dlrt::model model(get_api);
	need(model.symbols().size() == 1 && model.outputs().size() == 2 &&
		     model.outputs()[1].name == std::string_view("z") && !model.metadata(),
	     "the description");
	need(!(dl_sym_flags(&model.symbols()[0]) & ~DL_SYM_INDEPENDENT), "the flags of a symbol");
	dlrt::context context(model);
	dlrt::request request(model);
	request.in("x") = dlrt::tensor(x, {2, 4});
	request.out("y") = dlrt::tensor(y, {2, 4});
	request.out("z") = dlrt::tensor(z, {2, 4});
	context.run(request);
	need(y[0] == 1 && y[1] == 0 && y[3] == 8 && y[5] == 2 && z[5] == 4, "the elements");
	need(request.out("z").shape()[0] == 2, "the shape");
	return 0;
}
