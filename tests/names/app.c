/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the names that a model linked with it tells, in hex: C and C++. NAME is the model's
 * prefix; its header comes with -include. */
#include "dlrt.h"

#include <stdio.h>

#define JOIN(a, b) a##b
#define DESCRIBE(name) JOIN(name, _describe)
#define GET_API(name) JOIN(name, _get_api)

const dl_desc *DESCRIBE(NAME)(void);
const dl_api *GET_API(NAME)(uint32_t abi_version);

static void put(const char *what, const char *name)
{
	printf("%s ", what);
	for (; *name; name++)
		printf("%02x", (unsigned)(unsigned char)*name);
	printf("\n");
}

int main(void)
{
	const dl_desc *d = DESCRIBE(NAME)();
	const dl_api *api = GET_API(NAME)(DL_ABI_VERSION);
	dl_model *model = NULL;

	for (int i = 0; i < d->n_in; i++)
		put("in", d->in[i].name);
	for (int i = 0; i < d->n_out; i++)
		put("out", d->out[i].name);
	for (int i = 0; i < d->n_sym; i++)
		if (d->sym[i].kind == DL_SYM_INPUT)
			put("sym", d->sym[i].name);
	if (!api || api->load(NULL, &model))
		return 1;
	return api->unload(model) != DL_OK;
}
