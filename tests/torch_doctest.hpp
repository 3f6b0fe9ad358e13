#pragma once
// Torch and doctest define macros of the same names; doctest's shall win, so Torch comes first and gives its own up.
#include <ATen/ATen.h>
#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LE
#undef CHECK_LT
#undef CHECK_GE
#undef CHECK_GT
#include <doctest/doctest.h>
