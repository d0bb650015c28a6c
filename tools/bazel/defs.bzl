"""The one place for compiler flags, and the macros every BUILD file uses.

gyre_cc_library: one unit (a header, a source, its dependencies), private by default.
gyre_cc_test:    tests/unit/<module>/<unit>_test.cc with GoogleTest's main.
gyre_cc_binary:  programs.
gyre_cc_fuzz:    a libFuzzer target under --config=fuzz; elsewhere a test that replays seeds.
"""

COPTS = [
    "-std=c++20",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
    "-fno-exceptions",
] + select({
    "//tools/bazel:gcc": [
        "-Wno-attributes",
        "-Wno-dangling-else",
        # False alarms of gcc 12's optimiser inside inlined library code.
        "-Wno-array-bounds",
        "-Wno-maybe-uninitialized",
        "-Wno-stringop-overflow",
    ],
    "//conditions:default": [
        "-Wthread-safety",
        "-Wthread-safety-negative",
        "-Wno-thread-safety-negative",
        "-Wno-deprecated-declarations",
        "-Wno-c99-designator",
    ],
})

def gyre_cc_library(name, copts = [], **kwargs):
    # Programs and tests are linked statically, so nobody needs a shared library. One for each
    # unit would also lose what --as-needed finds unneeded in a test itself.
    native.cc_library(name = name, copts = COPTS + copts, linkstatic = True, **kwargs)

def gyre_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = COPTS + copts, **kwargs)

def gyre_cc_test(name, srcs = None, deps = [], copts = [], size = "small", **kwargs):
    native.cc_test(
        name = name,
        srcs = srcs or [name + ".cc"],
        copts = COPTS + copts,
        size = size,
        deps = deps + ["//tools/third_party:gtest_main"],
        **kwargs
    )

def gyre_cc_fuzz(name, srcs, deps = [], **kwargs):
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = COPTS,
        linkopts = ["-fsanitize=fuzzer"],
        deps = deps,
        testonly = True,
        tags = ["manual"],
        **kwargs
    )
