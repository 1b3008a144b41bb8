/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of weights that the artifact, a file, or the application has. */
#include "tests/runtime/test_runtime.h"

#include "runtime/hash.h"

#include <unistd.h>

static _Alignas(64) float table[16] = {0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f,
				       4, 4.5f, 5, 5.5f, 6, 6.5f, 7, 7.5f};

static int read_weights(void *user, void *dst, uint64_t offset, uint64_t bytes)
{
	(void)user;
	memcpy(dst, (char *)table + offset, bytes);
	return 0;
}

static char last_text[512]; /* of the last load that failed */

static void try_weights(const char *name, const dl_load_options *o, int status)
{
	const dl_api *api = open_api(name, NULL);
	dl_model *m;
	dl_context *c;

	EXPECT(status, api->load(o, &m), NULL);
	snprintf(last_text, sizeof(last_text), "%s", api->error(NULL));
	CHECK(!m == !!status && (!status || last_text[0]));
	if (!m)
		return;
	c = context(api, m);
	EXPECT(DL_OK, run_nonzero(api, c, 20, 3, 21), c);
	unload(api, m, c);
}

void test_weights(void)
{
	char path[4096], here[4096];
	dl_load_options o = {.size = sizeof(o), .flags = DL_LOAD_CHECK_WEIGHTS};

	try_weights("nonzero", &o, DL_OK);
	try_weights("nonzero_beside", &o, DL_OK);
	try_weights("apart/nonzero_beside", &o, DL_OK); /* beside the program */
	snprintf(path, sizeof(path), "%s/nonzero.weights", dir);
	snprintf(here, sizeof(here), "%s/hidden.weights", dir);
	CHECK(!rename(path, here));
	try_weights("apart/nonzero_beside", &o, DL_WEIGHTS);
	CHECK(strstr(last_text, "/apart/nonzero.weights (beside the model's code) nor "));
	CHECK(strstr(last_text, "/nonzero.weights (beside the program)"));
	CHECK(!rename(here, path));
	CHECK(getcwd(here, sizeof(here)) && !chdir("/"));
	try_weights("nonzero", &o, DL_OK); /* loaded by a relative path, and then chdir */
	CHECK(!chdir(here));
	try_weights("nonzero_stripped", &o, DL_WEIGHTS);
	o.weights = read_weights;
	try_weights("nonzero_stripped", &o, DL_OK);
	o.weights_data = table;
	try_weights("nonzero_stripped", &o, DL_OK);
	table[3] += 1.0f;
	try_weights("nonzero", &o, DL_WEIGHTS);
	table[3] -= 1.0f;
	o = (dl_load_options){.size = sizeof(o), .weights_path = path};
	snprintf(path, sizeof(path), "%s/nonzero.weights", dir);
	try_weights("nonzero_stripped", &o, DL_OK);
	snprintf(path, sizeof(path), "%s/nonzero.so", dir);
	try_weights("nonzero", &o, DL_WEIGHTS);
	snprintf(path, sizeof(path), "%s/missing", dir);
	try_weights("nonzero", &o, DL_WEIGHTS);
	o = (dl_load_options){.size = 4};
	try_weights("nonzero", &o, DL_ABI);
	o = (dl_load_options){.size = sizeof(o), .cpu_mask = 1ull << 63}; /* no feature at all */
	try_weights("nonzero", &o, DL_OK);
}

/* The hash does not depend on how the input is cut. */
void test_hash(void)
{
	unsigned char b[200];
	uint64_t whole;

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (unsigned char)(i * 7);
	whole = dl_hash_bytes(b, sizeof(b));
	for (size_t k = 0; k <= sizeof(b); k++) {
		dl_hash h;

		dl_hash_init(&h);
		dl_hash_update(&h, b, k / 2);
		dl_hash_update(&h, b + k / 2, k - k / 2);
		dl_hash_update(&h, b + k, sizeof(b) - k);
		CHECK(dl_hash_value(&h) == whole);
		CHECK(k == sizeof(b) || dl_hash_bytes(b, k) != whole);
	}
	b[100] ^= 1;
	CHECK(dl_hash_bytes(b, sizeof(b)) != whole);
}

int write_weights(const char *path)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(table, sizeof(table), 1, f) != 1 || fclose(f))
		return 1;
	printf("0x%llxull\n", (unsigned long long)dl_hash_bytes(table, sizeof(table)));
	return 0;
}
