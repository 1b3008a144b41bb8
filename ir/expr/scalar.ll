; SPDX-License-Identifier: Apache-2.0
; The scalar instructions of ir/expr/insts.def and the conversions of every element type, in LLVM IR: what ir/expr/scalar.h
; is in C, for the devices that LLVM makes code for, and bit for bit the same numbers. Function NAME_t is the
; instruction on scalar type t, cvt_s_t and bits_s_t convert, encode_d and decode_d go to and from the stored form
; of element type d, round_d and roundsat_d there and back.
;
; ";;" begins a group: the functions after it are meant for every value of its variables. For "t: f32 f64", $t is
; the name and $T LLVM's type; s likewise. A group without variables is plain; one "sm_80" is for GPUs from there on,
; and takes the place of what stands before it. Only what a kernel calls is put into its module, and functions of one
; instruction are put in place of the call.

;; t: f32 f64
define $T @neg_$t($T %a) {
  %r = fneg $T %a
  ret $T %r
}
define $T @abs_$t($T %a) {
  %r = call $T @llvm.fabs.$t($T %a)
  ret $T %r
}
define $T @add_$t($T %a, $T %b) {
  %r = fadd $T %a, %b
  ret $T %r
}
define $T @sub_$t($T %a, $T %b) {
  %r = fsub $T %a, %b
  ret $T %r
}
define $T @mul_$t($T %a, $T %b) {
  %r = fmul $T %a, %b
  ret $T %r
}
define $T @div_$t($T %a, $T %b) {
  %r = fdiv $T %a, %b
  ret $T %r
}
define $T @min_$t($T %a, $T %b) {
  %c = fcmp olt $T %a, %b
  %m = select i1 %c, $T %a, $T %b
  %n = fcmp uno $T %a, %a
  %r = select i1 %n, $T %a, $T %m
  ret $T %r
}
define $T @max_$t($T %a, $T %b) {
  %c = fcmp ogt $T %a, %b
  %m = select i1 %c, $T %a, $T %b
  %n = fcmp uno $T %a, %a
  %r = select i1 %n, $T %a, $T %m
  ret $T %r
}
define $T @sqrt_$t($T %a) {
  %r = call $T @llvm.sqrt.$t($T %a)
  ret $T %r
}
define $T @floor_$t($T %a) {
  %r = call $T @llvm.floor.$t($T %a)
  ret $T %r
}
define $T @ceil_$t($T %a) {
  %r = call $T @llvm.ceil.$t($T %a)
  ret $T %r
}
define $T @trunc_$t($T %a) {
  %r = call $T @llvm.trunc.$t($T %a)
  ret $T %r
}
define $T @rint_$t($T %a) {
  %r = call $T @llvm.rint.$t($T %a)
  ret $T %r
}
define $T @copysign_$t($T %a, $T %b) {
  %r = call $T @llvm.copysign.$t($T %a, $T %b)
  ret $T %r
}
define $T @fma_$t($T %a, $T %b, $T %c) {
  %r = call $T @llvm.fma.$t($T %a, $T %b, $T %c)
  ret $T %r
}
define $T @mad_$t($T %a, $T %b, $T %c) {
  %r = call $T @llvm.fma.$t($T %a, $T %b, $T %c)
  ret $T %r
}
define i1 @eq_$t($T %a, $T %b) {
  %r = fcmp oeq $T %a, %b
  ret i1 %r
}
define i1 @ne_$t($T %a, $T %b) {
  %r = fcmp une $T %a, %b
  ret i1 %r
}
define i1 @lt_$t($T %a, $T %b) {
  %r = fcmp olt $T %a, %b
  ret i1 %r
}
define i1 @le_$t($T %a, $T %b) {
  %r = fcmp ole $T %a, %b
  ret i1 %r
}
define i1 @gt_$t($T %a, $T %b) {
  %r = fcmp ogt $T %a, %b
  ret i1 %r
}
define i1 @ge_$t($T %a, $T %b) {
  %r = fcmp oge $T %a, %b
  ret i1 %r
}
define i1 @isnan_$t($T %a) {
  %r = fcmp uno $T %a, %a
  ret i1 %r
}
define $T @mod_$t($T %a, $T %b) {
  %m = call $T @rem_$t($T %a, $T %b)
  %z = fcmp oeq $T %m, 0.0
  %signed = call $T @llvm.copysign.$t($T %m, $T %b)
  %mn = fcmp olt $T %m, 0.0
  %bn = fcmp olt $T %b, 0.0
  %differ = xor i1 %mn, %bn
  %up = fadd $T %m, %b
  %other = select i1 %differ, $T %up, $T %m
  %r = select i1 %z, $T %signed, $T %other
  ret $T %r
}
define i1 @cvt_$t_bool($T %a) {
  %r = fcmp une $T %a, 0.0
  ret i1 %r
}
define i32 @cvt_$t_i32($T %a) {
  %r = call i32 @llvm.fptosi.sat.i32.$t($T %a)
  ret i32 %r
}
define i64 @cvt_$t_i64($T %a) {
  %r = call i64 @llvm.fptosi.sat.i64.$t($T %a)
  ret i64 %r
}
define i32 @cvt_$t_u32($T %a) {
  %r = call i32 @llvm.fptoui.sat.i32.$t($T %a)
  ret i32 %r
}
define i64 @cvt_$t_u64($T %a) {
  %r = call i64 @llvm.fptoui.sat.i64.$t($T %a)
  ret i64 %r
}

;; sm_80 t: f32
define $T @min_$t($T %a, $T %b) {
  %r = call $T @llvm.minimum.$t($T %a, $T %b)
  ret $T %r
}
define $T @max_$t($T %a, $T %b) {
  %r = call $T @llvm.maximum.$t($T %a, $T %b)
  ret $T %r
}

;; s: bool u32 u64 t: f32 f64
define $T @cvt_$s_$t($S %a) {
  %r = uitofp $S %a to $T
  ret $T %r
}

;; s: i32 i64 t: f32 f64
define $T @cvt_$s_$t($S %a) {
  %r = sitofp $S %a to $T
  ret $T %r
}

;; s: bool t: i32 i64 u32 u64
define $T @cvt_$s_$t($S %a) {
  %r = zext $S %a to $T
  ret $T %r
}

;; s: u32 t: i64 u64
define $T @cvt_$s_$t($S %a) {
  %r = zext $S %a to $T
  ret $T %r
}

;; s: i32 t: i64 u64
define $T @cvt_$s_$t($S %a) {
  %r = sext $S %a to $T
  ret $T %r
}

;; s: i64 u64 t: i32 u32
define $T @cvt_$s_$t($S %a) {
  %r = trunc $S %a to $T
  ret $T %r
}

;; s: i32 u32 t: i32 u32
define $T @cvt_$s_$t($S %a) {
  %r = bitcast $S %a to $T
  ret $T %r
}

;; s: i64 u64 t: i64 u64
define $T @cvt_$s_$t($S %a) {
  %r = bitcast $S %a to $T
  ret $T %r
}

;; s: i32 u32 f32 t: i32 u32 f32
define $T @bits_$s_$t($S %a) {
  %r = bitcast $S %a to $T
  ret $T %r
}

;; s: i64 u64 f64 t: i64 u64 f64
define $T @bits_$s_$t($S %a) {
  %r = bitcast $S %a to $T
  ret $T %r
}

;;
define double @cvt_f32_f64(float %a) {
  %r = fpext float %a to double
  ret double %r
}
define float @cvt_f64_f32(double %a) {
  %r = fptrunc double %a to float
  ret float %r
}
define i1 @cvt_bool_bool(i1 %a) {
  %r = or i1 %a, false
  ret i1 %r
}

;; t: i32 i64 u32 u64
define $T @neg_$t($T %a) {
  %r = sub $T 0, %a
  ret $T %r
}
define $T @add_$t($T %a, $T %b) {
  %r = add $T %a, %b
  ret $T %r
}
define $T @sub_$t($T %a, $T %b) {
  %r = sub $T %a, %b
  ret $T %r
}
define $T @mul_$t($T %a, $T %b) {
  %r = mul $T %a, %b
  ret $T %r
}
define $T @not_$t($T %a) {
  %r = xor $T %a, -1
  ret $T %r
}
define i1 @isnan_$t($T %a) {
  %r = icmp ne $T %a, %a
  ret i1 %r
}
define i1 @cvt_$t_bool($T %a) {
  %r = icmp ne $T %a, 0
  ret i1 %r
}

;; t: bool
define i1 @not_$t(i1 %a) {
  %r = xor i1 %a, true
  ret i1 %r
}

;; t: bool i32 i64 u32 u64
define $T @and_$t($T %a, $T %b) {
  %r = and $T %a, %b
  ret $T %r
}
define $T @or_$t($T %a, $T %b) {
  %r = or $T %a, %b
  ret $T %r
}
define $T @xor_$t($T %a, $T %b) {
  %r = xor $T %a, %b
  ret $T %r
}
define i1 @eq_$t($T %a, $T %b) {
  %r = icmp eq $T %a, %b
  ret i1 %r
}
define i1 @ne_$t($T %a, $T %b) {
  %r = icmp ne $T %a, %b
  ret i1 %r
}

;; t: i32 i64
define i1 @lt_$t($T %a, $T %b) {
  %r = icmp slt $T %a, %b
  ret i1 %r
}
define i1 @le_$t($T %a, $T %b) {
  %r = icmp sle $T %a, %b
  ret i1 %r
}
define i1 @gt_$t($T %a, $T %b) {
  %r = icmp sgt $T %a, %b
  ret i1 %r
}
define i1 @ge_$t($T %a, $T %b) {
  %r = icmp sge $T %a, %b
  ret i1 %r
}
define $T @min_$t($T %a, $T %b) {
  %r = call $T @llvm.smin.$T($T %a, $T %b)
  ret $T %r
}
define $T @max_$t($T %a, $T %b) {
  %r = call $T @llvm.smax.$T($T %a, $T %b)
  ret $T %r
}
define $T @abs_$t($T %a) {
  %r = call $T @llvm.abs.$T($T %a, i1 false)
  ret $T %r
}
define $T @div_$t($T %a, $T %b) {
  %zero = icmp eq $T %b, 0
  %one = icmp eq $T %b, -1
  %bad = or i1 %zero, %one
  %d = select i1 %bad, $T 1, $T %b
  %q = sdiv $T %a, %d
  %n = sub $T 0, %a
  %m = select i1 %one, $T %n, $T %q
  %r = select i1 %zero, $T 0, $T %m
  ret $T %r
}
define $T @rem_$t($T %a, $T %b) {
  %zero = icmp eq $T %b, 0
  %one = icmp eq $T %b, -1
  %bad = or i1 %zero, %one
  %d = select i1 %bad, $T 1, $T %b
  %q = srem $T %a, %d
  %r = select i1 %zero, $T %a, $T %q
  ret $T %r
}
define $T @mod_$t($T %a, $T %b) {
  %m = call $T @rem_$t($T %a, $T %b)
  %c = call i1 @crosses_$t($T %m, $T %b)
  %up = add $T %m, %b
  %r = select i1 %c, $T %up, $T %m
  ret $T %r
}
define $T @floordiv_$t($T %a, $T %b) {
  %m = call $T @rem_$t($T %a, $T %b)
  %c = call i1 @crosses_$t($T %m, $T %b)
  %q = call $T @div_$t($T %a, $T %b)
  %down = sub $T %q, 1
  %r = select i1 %c, $T %down, $T %q
  ret $T %r
}
; whether remainder %m lies on the other side of 0 than the divisor
define i1 @crosses_$t($T %m, $T %b) {
  %mn = icmp ne $T %m, 0
  %bn = icmp ne $T %b, 0
  %x = xor $T %m, %b
  %neg = icmp slt $T %x, 0
  %some = and i1 %mn, %bn
  %r = and i1 %some, %neg
  ret i1 %r
}

;; t: u32 u64
define i1 @lt_$t($T %a, $T %b) {
  %r = icmp ult $T %a, %b
  ret i1 %r
}
define i1 @le_$t($T %a, $T %b) {
  %r = icmp ule $T %a, %b
  ret i1 %r
}
define i1 @gt_$t($T %a, $T %b) {
  %r = icmp ugt $T %a, %b
  ret i1 %r
}
define i1 @ge_$t($T %a, $T %b) {
  %r = icmp uge $T %a, %b
  ret i1 %r
}
define $T @min_$t($T %a, $T %b) {
  %r = call $T @llvm.umin.$T($T %a, $T %b)
  ret $T %r
}
define $T @max_$t($T %a, $T %b) {
  %r = call $T @llvm.umax.$T($T %a, $T %b)
  ret $T %r
}
define $T @abs_$t($T %a) {
  %r = or $T %a, 0
  ret $T %r
}
define $T @div_$t($T %a, $T %b) {
  %zero = icmp eq $T %b, 0
  %d = select i1 %zero, $T 1, $T %b
  %q = udiv $T %a, %d
  %r = select i1 %zero, $T 0, $T %q
  ret $T %r
}
define $T @floordiv_$t($T %a, $T %b) {
  %r = call $T @div_$t($T %a, $T %b)
  ret $T %r
}
define $T @rem_$t($T %a, $T %b) {
  %zero = icmp eq $T %b, 0
  %d = select i1 %zero, $T 1, $T %b
  %q = urem $T %a, %d
  %r = select i1 %zero, $T %a, $T %q
  ret $T %r
}
define $T @mod_$t($T %a, $T %b) {
  %r = call $T @rem_$t($T %a, $T %b)
  ret $T %r
}

;;
define float @ex2_f32(float %a) {
  %r = call float @llvm.nvvm.ex2.approx.ftz.f(float %a)
  ret float %r
}
define double @ex2_f64(double %a) {
  %f = fptrunc double %a to float
  %e = call float @llvm.nvvm.ex2.approx.ftz.f(float %f)
  %r = fpext float %e to double
  ret double %r
}

; ir/expr/scalar.h has the reasons.
;; t: f32
define float @scale_f32(float %m, float %n) {
  %t = bitcast float %n to i32
  %e = sub i32 %t, 1262485504
  %s = shl i32 %e, 23
  %mb = bitcast float %m to i32
  %b = add i32 %mb, %s
  %tiny = icmp slt i32 %b, 8388608
  %more = select i1 %tiny, i32 1249902592, i32 0
  %h = add i32 %b, %more
  %hf = bitcast i32 %h to float
  %sum = fadd float %hf, 8388608.0
  %sb = bitcast float %sum to i32
  %k = sub i32 %sb, 1258291200
  %top = call i32 @llvm.smin.i32(i32 %b, i32 2139095040)
  %rb = select i1 %tiny, i32 %k, i32 %top
  %r = bitcast i32 %rb to float
  %nan = fcmp uno float %m, %m
  %all = select i1 %nan, float %m, float %r
  ret float %all
}
;; t: f64
define double @scale_f64(double %m, double %n) {
  %t = bitcast double %n to i64
  %e = sub i64 %t, 4843621399236968448
  %s = shl i64 %e, 52
  %mb = bitcast double %m to i64
  %b = add i64 %mb, %s
  %tiny = icmp slt i64 %b, 4503599627370496
  %more = select i1 %tiny, i64 4836865999795912704, i64 0
  %h = add i64 %b, %more
  %hf = bitcast i64 %h to double
  %sum = fadd double %hf, 4503599627370496.0
  %sb = bitcast double %sum to i64
  %k = sub i64 %sb, 4841369599423283200
  %top = call i64 @llvm.smin.i64(i64 %b, i64 9218868437227405312)
  %rb = select i1 %tiny, i64 %k, i64 %top
  %r = bitcast i64 %rb to double
  %nan = fcmp uno double %m, %m
  %all = select i1 %nan, double %m, double %r
  ret double %all
}

; Shifts by the width or more, or by less than 0: every bit is gone, a sign stays.
;; t: i32 u32
define $T @shl_$t($T %a, $T %b) {
  %in = icmp ult $T %b, 32
  %n = and $T %b, 31
  %s = shl $T %a, %n
  %r = select i1 %in, $T %s, $T 0
  ret $T %r
}

;; t: i64 u64
define $T @shl_$t($T %a, $T %b) {
  %in = icmp ult $T %b, 64
  %n = and $T %b, 63
  %s = shl $T %a, %n
  %r = select i1 %in, $T %s, $T 0
  ret $T %r
}

;;
define i32 @shr_i32(i32 %a, i32 %b) {
  %n = call i32 @llvm.umin.i32(i32 %b, i32 31)
  %r = ashr i32 %a, %n
  ret i32 %r
}
define i64 @shr_i64(i64 %a, i64 %b) {
  %n = call i64 @llvm.umin.i64(i64 %b, i64 63)
  %r = ashr i64 %a, %n
  ret i64 %r
}
define i32 @shr_u32(i32 %a, i32 %b) {
  %in = icmp ult i32 %b, 32
  %n = and i32 %b, 31
  %s = lshr i32 %a, %n
  %r = select i1 %in, i32 %s, i32 0
  ret i32 %r
}
define i64 @shr_u64(i64 %a, i64 %b) {
  %in = icmp ult i64 %b, 64
  %n = and i64 %b, 63
  %s = lshr i64 %a, %n
  %r = select i1 %in, i64 %s, i64 0
  ret i64 %r
}
define i32 @mulhi_i32(i32 %a, i32 %b) {
  %x = sext i32 %a to i64
  %y = sext i32 %b to i64
  %p = mul i64 %x, %y
  %h = lshr i64 %p, 32
  %r = trunc i64 %h to i32
  ret i32 %r
}
define i32 @mulhi_u32(i32 %a, i32 %b) {
  %x = zext i32 %a to i64
  %y = zext i32 %b to i64
  %p = mul i64 %x, %y
  %h = lshr i64 %p, 32
  %r = trunc i64 %h to i32
  ret i32 %r
}
define i64 @mulhi_i64(i64 %a, i64 %b) {
  %r = call i64 @llvm.nvvm.mulhi.ll(i64 %a, i64 %b)
  ret i64 %r
}
define i64 @mulhi_u64(i64 %a, i64 %b) {
  %r = call i64 @llvm.nvvm.mulhi.ull(i64 %a, i64 %b)
  ret i64 %r
}

; x^n by squaring; of n < 0 it is 1/x^-n towards zero, 0 where x is 0.
;; t: u32 u64
define $T @ipow_$t($T %a, $T %b) {
entry:
  br label %loop
loop:
  %n = phi $T [ %b, %entry ], [ %n2, %step ]
  %x = phi $T [ %a, %entry ], [ %x2, %step ]
  %p = phi $T [ 1, %entry ], [ %p2, %step ]
  %more = icmp ne $T %n, 0
  br i1 %more, label %step, label %done
step:
  %bit = trunc $T %n to i1
  %px = mul $T %p, %x
  %p2 = select i1 %bit, $T %px, $T %p
  %x2 = mul $T %x, %x
  %n2 = lshr $T %n, 1
  br label %loop
done:
  ret $T %p
}

;; t: i32 i64
define $T @ipow_$t($T %a, $T %b) {
entry:
  %neg = icmp slt $T %b, 0
  br i1 %neg, label %inverse, label %power
inverse:
  %odd = trunc $T %b to i1
  %flip = select i1 %odd, $T -1, $T 1
  %one = icmp eq $T %a, 1
  %mone = icmp eq $T %a, -1
  %m = select i1 %mone, $T %flip, $T 0
  %q = select i1 %one, $T 1, $T %m
  ret $T %q
power:
  br label %loop
loop:
  %n = phi $T [ %b, %power ], [ %n2, %step ]
  %x = phi $T [ %a, %power ], [ %x2, %step ]
  %p = phi $T [ 1, %power ], [ %p2, %step ]
  %more = icmp ne $T %n, 0
  br i1 %more, label %step, label %done
step:
  %bit = trunc $T %n to i1
  %px = mul $T %p, %x
  %p2 = select i1 %bit, $T %px, $T %p
  %x2 = mul $T %x, %x
  %n2 = lshr $T %n, 1
  br label %loop
done:
  ret $T %p
}

; The exact remainder of a / b with a's sign, by long division on the significands: see ir/expr/scalar.h.
;;
define float @rem_f32(float %a, float %b) {
  %ai = bitcast float %a to i32
  %bi = bitcast float %b to i32
  %x32 = and i32 %ai, 2147483647
  %y32 = and i32 %bi, 2147483647
  %x = zext i32 %x32 to i64
  %y = zext i32 %y32 to i64
  %m = call i64 @long_rem(i64 %x, i64 %y, i64 23, i64 40)
  %m32 = trunc i64 %m to i32
  %mf = bitcast i32 %m32 to float
  %s = call float @llvm.copysign.f32(float %mf, float %a)
  %less = icmp ult i32 %x32, %y32
  %v = select i1 %less, float %a, float %s
  %big = icmp uge i32 %x32, 2139095040
  %nan = icmp ugt i32 %y32, 2139095040
  %zero = icmp eq i32 %y32, 0
  %bad1 = or i1 %big, %nan
  %bad = or i1 %bad1, %zero
  %r = select i1 %bad, float 0x7FF8000000000000, float %v
  ret float %r
}
define double @rem_f64(double %a, double %b) {
  %ai = bitcast double %a to i64
  %bi = bitcast double %b to i64
  %x = and i64 %ai, 9223372036854775807
  %y = and i64 %bi, 9223372036854775807
  %m = call i64 @long_rem(i64 %x, i64 %y, i64 52, i64 11)
  %mf = bitcast i64 %m to double
  %s = call double @llvm.copysign.f64(double %mf, double %a)
  %less = icmp ult i64 %x, %y
  %v = select i1 %less, double %a, double %s
  %big = icmp uge i64 %x, 9218868437227405312
  %nan = icmp ugt i64 %y, 9218868437227405312
  %zero = icmp eq i64 %y, 0
  %bad1 = or i1 %big, %nan
  %bad = or i1 %bad1, %zero
  %r = select i1 %bad, double 0x7FF8000000000000, double %v
  ret double %r
}
; bits of |a| rem |b| for numbers of %man significand bits, %step bits at a time
define i64 @long_rem(i64 %x, i64 %y, i64 %man, i64 %step) {
entry:
  %one = shl i64 1, %man
  %mask = sub i64 %one, 1
  %ex0 = lshr i64 %x, %man
  %ey0 = lshr i64 %y, %man
  %xz = icmp eq i64 %ex0, 0
  %yz = icmp eq i64 %ey0, 0
  %xm = and i64 %x, %mask
  %ym = and i64 %y, %mask
  %xo = select i1 %xz, i64 0, i64 %one
  %yo = select i1 %yz, i64 0, i64 %one
  %m0 = or i64 %xm, %xo
  %n0 = or i64 %ym, %yo
  %ex = select i1 %xz, i64 1, i64 %ex0
  %ey = select i1 %yz, i64 1, i64 %ey0
  %nz = icmp eq i64 %n0, 0
  %n = select i1 %nz, i64 1, i64 %n0
  %m1 = urem i64 %m0, %n
  br label %divide
divide:
  %m = phi i64 [ %m1, %entry ], [ %m2, %some ]
  %e = phi i64 [ %ex, %entry ], [ %e2, %some ]
  %go = icmp sgt i64 %e, %ey
  br i1 %go, label %some, label %divided
some:
  %left = sub i64 %e, %ey
  %k = call i64 @llvm.smin.i64(i64 %left, i64 %step)
  %sh = shl i64 %m, %k
  %m2 = urem i64 %sh, %n
  %e2 = sub i64 %e, %k
  br label %divide
divided:
  %mz = icmp eq i64 %m, 0
  br i1 %mz, label %none, label %normal
none:
  ret i64 0
normal:
  %p = phi i64 [ %m, %divided ], [ %p2, %up ]
  %f = phi i64 [ %e, %divided ], [ %f2, %up ]
  %top = lshr i64 %p, %man
  %low = icmp eq i64 %top, 0
  %room = icmp sgt i64 %f, 1
  %more = and i1 %low, %room
  br i1 %more, label %up, label %done
up:
  %p2 = shl i64 %p, 1
  %f2 = sub i64 %f, 1
  br label %normal
done:
  %frac = and i64 %p, %mask
  %exp = shl i64 %f, %man
  %whole = or i64 %frac, %exp
  %r = select i1 %low, i64 %p, i64 %whole
  ret i64 %r
}

; I in [-n, n) as [0, n); else *fault is set and 0 read.
define i64 @index(i64 %i, i64 %n, ptr %fault) {
  %neg = icmp slt i64 %i, 0
  %w = add i64 %i, %n
  %at = select i1 %neg, i64 %w, i64 %i
  %bad = icmp uge i64 %at, %n
  %old = load i32, ptr %fault
  %b32 = zext i1 %bad to i32
  %new = or i32 %old, %b32
  store i32 %new, ptr %fault
  %r = select i1 %bad, i64 0, i64 %at
  ret i64 %r
}

; ---- Stored forms ----

;; t: f32 f64 i32 i64 u32 u64
define $T @decode_$t($T %c) {
  ret $T %c
}
define $T @encode_$t($T %a) {
  ret $T %a
}
define $T @round_$t($T %a) {
  ret $T %a
}
define $T @roundsat_$t($T %a) {
  ret $T %a
}

;;
define i1 @decode_bool(i8 %c) {
  %r = icmp ne i8 %c, 0
  ret i1 %r
}
define i8 @encode_bool(i1 %a) {
  %r = zext i1 %a to i8
  ret i8 %r
}
define i1 @round_bool(i1 %a) {
  ret i1 %a
}
define i1 @roundsat_bool(i1 %a) {
  ret i1 %a
}
define i32 @decode_u8(i8 %c) {
  %r = zext i8 %c to i32
  ret i32 %r
}
define i32 @decode_i8(i8 %c) {
  %r = sext i8 %c to i32
  ret i32 %r
}
define i32 @decode_u16(i16 %c) {
  %r = zext i16 %c to i32
  ret i32 %r
}
define i32 @decode_i16(i16 %c) {
  %r = sext i16 %c to i32
  ret i32 %r
}
define i8 @encode_u8(i32 %a) {
  %r = trunc i32 %a to i8
  ret i8 %r
}
define i8 @encode_i8(i32 %a) {
  %r = trunc i32 %a to i8
  ret i8 %r
}
define i16 @encode_u16(i32 %a) {
  %r = trunc i32 %a to i16
  ret i16 %r
}
define i16 @encode_i16(i32 %a) {
  %r = trunc i32 %a to i16
  ret i16 %r
}
define float @decode_f16(i16 %c) {
  %h = bitcast i16 %c to half
  %r = fpext half %h to float
  ret float %r
}
define i16 @encode_f16(float %a) {
  %h = fptrunc float %a to half
  %r = bitcast half %h to i16
  ret i16 %r
}
define float @decode_bf16(i16 %c) {
  %h = bitcast i16 %c to bfloat
  %r = fpext bfloat %h to float
  ret float %r
}
define i16 @encode_bf16(float %a) {
  %h = fptrunc float %a to bfloat
  %r = bitcast bfloat %h to i16
  ret i16 %r
}
define float @decode_f8e8m0(i8 %c) {
  %w = zext i8 %c to i32
  %u = shl i32 %w, 23
  %z = icmp eq i32 %w, 0
  %v = select i1 %z, i32 4194304, i32 %u
  %nan = icmp eq i32 %w, 255
  %b = select i1 %nan, i32 2143289344, i32 %v
  %r = bitcast i32 %b to float
  ret float %r
}
define i32 @code_f8e8m0(float %a, i1 %sat) {
  %u = bitcast float %a to i32
  %m = and i32 %u, 2147483647
  %tiny = icmp ult i32 %m, 8388608
  %one = zext i1 %tiny to i32
  %h = add i32 %m, 4194304
  %s = sub i32 %h, %one
  %e = lshr i32 %s, 23
  %over = icmp ugt i32 %e, 254
  %clip = and i1 %over, %sat
  %f = select i1 %clip, i32 254, i32 %e
  %nan = icmp ugt i32 %m, 2139095040
  %r = select i1 %nan, i32 255, i32 %f
  ret i32 %r
}
define i8 @encode_f8e8m0(float %a) {
  %c = call i32 @code_f8e8m0(float %a, i1 true)
  %r = trunc i32 %c to i8
  ret i8 %r
}
define float @round_f8e8m0(float %a) {
  %c = call i32 @code_f8e8m0(float %a, i1 false)
  %b = trunc i32 %c to i8
  %r = call float @decode_f8e8m0(i8 %b)
  ret float %r
}
define float @roundsat_f8e8m0(float %a) {
  %b = call i8 @encode_f8e8m0(float %a)
  %r = call float @decode_f8e8m0(i8 %b)
  ret float %r
}

;; d: u8 i8 u16 i16
define i32 @round_$d(i32 %a) {
  %c = call i$W @encode_$d(i32 %a)
  %r = call i32 @decode_$d(i$W %c)
  ret i32 %r
}
define i32 @roundsat_$d(i32 %a) {
  %r = call i32 @round_$d(i32 %a)
  ret i32 %r
}

;; d: f16 bf16
define float @round_$d(float %a) {
  %c = call i16 @encode_$d(float %a)
  %r = call float @decode_$d(i16 %c)
  ret float %r
}
define float @roundsat_$d(float %a) {
  %r = call float @round_$d(float %a)
  ret float %r
}

; Integers of less than 8 bits: mask, and the sign bit of those that have one.
;; d: u4/15/0 i4/15/8 u2/3/0 i2/3/2
define i32 @round_$d(i32 %a) {
  %m = and i32 %a, $1
  %x = xor i32 %m, $2
  %r = sub i32 %x, $2
  ret i32 %r
}
define i32 @roundsat_$d(i32 %a) {
  %r = call i32 @round_$d(i32 %a)
  ret i32 %r
}
define i8 @encode_$d(i32 %a) {
  %r = trunc i32 %a to i8
  ret i8 %r
}
define i32 @decode_$d(i8 %c) {
  %w = zext i8 %c to i32
  %r = call i32 @round_$d(i32 %w)
  ret i32 %r
}

; Small floats: mantissa bits, bias, largest finite code, code past it, code of NaN, first code that is not a number,
; magnitude that is NaN, sign bit, whether infinities are codes, whether -0 is NaN: see dl_encode in ir/expr/scalar.h.
;; d: f8e4m3fn/3/7/126/127/127/-1/127/128/false/false f8e4m3fnuz/3/8/127/128/128/-1/-1/128/false/true f8e5m2/2/15/123/124/126/124/-1/128/true/false f8e5m2fnuz/2/16/127/128/128/-1/-1/128/false/true f4e2m1/1/1/7/7/0/-1/-1/8/false/false f6e2m3/3/1/31/31/0/-1/-1/32/false/false f6e3m2/2/3/31/31/0/-1/-1/32/false/false
define i8 @encode_$d(float %a) {
  %c = call i32 @small_encode(float %a, i32 $1, i32 $2, i32 $3, i32 $4, i32 $5, i32 $8, i1 true, i1 $9, i1 $10)
  %r = trunc i32 %c to i8
  ret i8 %r
}
define float @decode_$d(i8 %c) {
  %w = zext i8 %c to i32
  %r = call float @small_decode(i32 %w, i32 $1, i32 $2, i32 $6, i32 $7, i32 $8, i1 $10)
  ret float %r
}
define float @round_$d(float %a) {
  %c = call i32 @small_encode(float %a, i32 $1, i32 $2, i32 $3, i32 $4, i32 $5, i32 $8, i1 false, i1 true, i1 $10)
  %r = call float @small_decode(i32 %c, i32 $1, i32 $2, i32 $6, i32 $7, i32 $8, i1 $10)
  ret float %r
}
define float @roundsat_$d(float %a) {
  %c = call i32 @small_encode(float %a, i32 $1, i32 $2, i32 $3, i32 $4, i32 $5, i32 $8, i1 true, i1 false, i1 $10)
  %r = call float @small_decode(i32 %c, i32 $1, i32 $2, i32 $6, i32 $7, i32 $8, i1 $10)
  ret float %r
}

;;
define i32 @small_encode(float %x, i32 %man, i32 %bias, i32 %last, i32 %over, i32 %nan, i32 %sign, i1 %sat, i1 %keep, i1 %nn0) {
  %u = bitcast float %x to i32
  %a = and i32 %u, 2147483647
  %neg = icmp slt i32 %u, 0
  %s0 = select i1 %neg, i32 %sign, i32 0
  %e1 = sub i32 151, %bias
  %e2 = sub i32 %e1, %man
  %stepb = shl i32 %e2, 23
  %step = bitcast i32 %stepb to float
  %k = sub i32 23, %man
  %k1 = sub i32 22, %man
  %h0 = shl i32 1, %k1
  %h1 = sub i32 %h0, 1
  %o0 = lshr i32 %a, %k
  %o1 = and i32 %o0, 1
  %t0 = add i32 %a, %h1
  %t1 = add i32 %t0, %o1
  %t2 = lshr i32 %t1, %k
  %b0 = sub i32 127, %bias
  %b1 = shl i32 %b0, %man
  %n = sub i32 %t2, %b1
  %af = bitcast i32 %a to float
  %sf = fadd float %af, %step
  %sb = bitcast float %sf to i32
  %m0 = sub i32 %sb, %stepb
  %l0 = sub i32 128, %bias
  %l1 = shl i32 %l0, 23
  %low = icmp ult i32 %a, %l1
  %m1 = select i1 %low, i32 %m0, i32 %n
  %past = icmp ugt i32 %m1, %last
  %inf = icmp eq i32 %a, 2139095040
  %ki = and i1 %keep, %inf
  %nki = xor i1 %ki, true
  %clip = and i1 %sat, %nki
  %m2 = select i1 %clip, i32 %last, i32 %over
  %m3 = select i1 %past, i32 %m2, i32 %m1
  %isnan = icmp ugt i32 %a, 2139095040
  %m4 = select i1 %isnan, i32 %nan, i32 %m3
  %nonan = icmp eq i32 %nan, 0
  %plain = and i1 %nonan, %isnan
  %s1 = select i1 %plain, i32 0, i32 %s0
  %z0 = icmp eq i32 %m4, 0
  %z1 = icmp eq i32 %m4, %nan
  %z2 = or i1 %z0, %z1
  %z3 = and i1 %nn0, %z2
  %signed = or i32 %m4, %s1
  %r = select i1 %z3, i32 %m4, i32 %signed
  ret i32 %r
}
define float @small_decode(i32 %code, i32 %man, i32 %bias, i32 %inf, i32 %nan, i32 %sign, i1 %nn0) {
  %mask = sub i32 %sign, 1
  %m = and i32 %code, %mask
  %sb = and i32 %code, %sign
  %neg = icmp ne i32 %sb, 0
  %s = select i1 %neg, i32 -2147483648, i32 0
  %k = sub i32 23, %man
  %n0 = shl i32 %m, %k
  %b0 = sub i32 127, %bias
  %b1 = shl i32 %b0, 23
  %n = add i32 %n0, %b1
  %u0 = sub i32 128, %bias
  %u1 = sub i32 %u0, %man
  %u2 = shl i32 %u1, 23
  %unit = bitcast i32 %u2 to float
  %mf = sitofp i32 %m to float
  %sf = fmul float %mf, %unit
  %small = bitcast float %sf to i32
  %one = shl i32 1, %man
  %low = icmp ult i32 %m, %one
  %v0 = select i1 %low, i32 %small, i32 %n
  %above = icmp ugt i32 %m, %inf
  %isnan = icmp eq i32 %m, %nan
  %bad = or i1 %above, %isnan
  %v1 = select i1 %bad, i32 2143289344, i32 %v0
  %isinf = icmp eq i32 %m, %inf
  %v2 = select i1 %isinf, i32 2139095040, i32 %v1
  %z0 = icmp eq i32 %code, %sign
  %z = and i1 %nn0, %z0
  %v3 = select i1 %z, i32 2143289344, i32 %v2
  %v4 = or i32 %v3, %s
  %r = bitcast i32 %v4 to float
  ret float %r
}

; Elements of less than 8 bits, the first in the low bits; those of 6 bits may lie over two bytes.
define i8 @load_packed(ptr addrspace(1) %p, i64 %i, i64 %bits) {
entry:
  %at = mul i64 %i, %bits
  %byte = ashr i64 %at, 3
  %s64 = and i64 %at, 7
  %s = trunc i64 %s64 to i32
  %q = getelementptr i8, ptr addrspace(1) %p, i64 %byte
  %lo8 = load i8, ptr addrspace(1) %q
  %lo = zext i8 %lo8 to i32
  %end = add i64 %s64, %bits
  %two = icmp ugt i64 %end, 8
  br i1 %two, label %both, label %have
both:
  %q1 = getelementptr i8, ptr addrspace(1) %q, i64 1
  %hi8 = load i8, ptr addrspace(1) %q1
  %hi = zext i8 %hi8 to i32
  %hs = shl i32 %hi, 8
  br label %have
have:
  %up = phi i32 [ 0, %entry ], [ %hs, %both ]
  %w = or i32 %lo, %up
  %v = lshr i32 %w, %s
  %b32 = trunc i64 %bits to i32
  %one = shl i32 1, %b32
  %mask = sub i32 %one, 1
  %c = and i32 %v, %mask
  %r = trunc i32 %c to i8
  ret i8 %r
}
define void @store_packed(ptr addrspace(1) %p, i64 %i, i64 %bits, i8 %code) {
entry:
  %at = mul i64 %i, %bits
  %byte = ashr i64 %at, 3
  %s64 = and i64 %at, 7
  %s = trunc i64 %s64 to i32
  %b32 = trunc i64 %bits to i32
  %one = shl i32 1, %b32
  %m0 = sub i32 %one, 1
  %m = shl i32 %m0, %s
  %c32 = zext i8 %code to i32
  %c0 = shl i32 %c32, %s
  %c = and i32 %c0, %m
  %keep = xor i32 %m, -1
  %q = getelementptr i8, ptr addrspace(1) %p, i64 %byte
  %lo8 = load i8, ptr addrspace(1) %q
  %lo = zext i8 %lo8 to i32
  %lk = and i32 %lo, %keep
  %ln = or i32 %lk, %c
  %l8 = trunc i32 %ln to i8
  store i8 %l8, ptr addrspace(1) %q
  %end = add i64 %s64, %bits
  %two = icmp ugt i64 %end, 8
  br i1 %two, label %both, label %done
both:
  %q1 = getelementptr i8, ptr addrspace(1) %q, i64 1
  %hi8 = load i8, ptr addrspace(1) %q1
  %hi = zext i8 %hi8 to i32
  %hkeep = lshr i32 %keep, 8
  %hk0 = and i32 %hi, %hkeep
  %hc = lshr i32 %c, 8
  %hn = or i32 %hk0, %hc
  %h8 = trunc i32 %hn to i8
  store i8 %h8, ptr addrspace(1) %q1
  br label %done
done:
  ret void
}
