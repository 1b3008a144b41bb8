/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that dlcc contains and writes into generated code, NUL-terminated. */
#ifndef CODEGEN_PACKAGE_EMBED_H
#define CODEGEN_PACKAGE_EMBED_H

extern const char embed_scalar_h[]; /* ir/expr/scalar.h */
extern const char embed_dlrt_h[];   /* runtime/dlrt.h */
extern const char
	embed_runtime[]; /* the files of runtime/, each after a line with its name and bytes */
extern const char embed_scalar_ll[]; /* ir/expr/scalar.ll */
extern const char embed_kernel_h[];  /* codegen/c/kernel.h.in, which c_text prints */

#endif
