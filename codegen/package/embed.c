/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/package/embed.h"

/* Paths are relative to the folder in which the compiler runs, the repository's root. */
#define EMBED(name, path)                                                        \
	__asm__(".section .rodata\n.hidden " #name "\n.global " #name "\n" #name \
		":\n.incbin \"" path "\"\n.byte 0\n.previous\n")

EMBED(embed_scalar_h, "ir/expr/scalar.h");
EMBED(embed_dlrt_h, "runtime/dlrt.h");
EMBED(embed_runtime, EMBED_RUNTIME); /* which make writes */
EMBED(embed_scalar_ll, "ir/expr/scalar.ll");
EMBED(embed_kernel_h, "codegen/c/kernel.h.in");
