/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms in which the compiler writes text from a model. runtime/escape.h defines what a form
 * is, and has the forms for terminals and for JSON. strbuf_escape and arena_escape (base/str.h)
 * apply a form. There is no form for format strings: text from a model is always an argument of a
 * format, never a part of it.
 */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include "runtime/escape.h"

/* For a string in the IR's text, between its quotes: \" \\ \n \t \xHH. */
size_t escape_quoted(const char **s, char *out);
/* For a string literal of C, between its quotes. */
size_t escape_c_string(const char **s, char *out);
/* For a C comment between slash-star and star-slash: the text neither ends the comment nor
 * begins another one. */
size_t escape_c_comment(const char **s, char *out);
/* For a comment that ends with its line, in PTX or LLVM IR. The result is ASCII, since ptxas
 * accepts nothing else. */
size_t escape_line_comment(const char **s, char *out);
/* For the name of a file in a folder: %HH for a slash, for %, and for characters that are not
 * printable. */
size_t escape_file_name(const char **s, char *out);
/* For a string of the assembler within a string literal of C. */
size_t escape_assembler(const char **s, char *out);

#endif
