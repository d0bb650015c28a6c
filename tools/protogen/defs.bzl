"""Rules that turn schemas of proto/schemas into libraries, with tools/protogen/protogen.py."""

load("//tools/bazel:defs.bzl", "gyre_cc_library")

_PROTOGEN = "//tools/protogen:protogen.py"

def gyre_message_library(name, schemas, **kwargs):
    """One library from schema files: a header proto/<schema>.h of each."""
    headers = [schema.split("/")[-1].replace(".schema", ".h") for schema in schemas]
    source = name + "_messages.cc"
    native.genrule(
        name = name + "_gen",
        srcs = schemas,
        outs = headers + [source],
        cmd = "python3 $(location %s) messages $(location %s) $(SRCS)" % (_PROTOGEN, source),
        tools = [_PROTOGEN],
        visibility = ["//visibility:private"],
    )
    gyre_cc_library(
        name = name,
        srcs = [source],
        hdrs = headers,
        deps = ["//proto/wire:codec"],
        **kwargs
    )

def gyre_api_table(name, schemas):
    """The header <name>.h with the versions of every api."""
    native.genrule(
        name = name + "_gen",
        srcs = schemas,
        outs = [name + ".h"],
        cmd = "python3 $(location %s) api_table $(OUTS) $(SRCS)" % _PROTOGEN,
        tools = [_PROTOGEN],
        visibility = ["//visibility:private"],
    )

def gyre_message_descriptors(name, schemas):
    """The source descriptors_<name>.cc: schemas as data (proto/descriptor.h)."""
    native.genrule(
        name = "descriptors_" + name + "_gen",
        srcs = schemas,
        outs = ["descriptors_" + name + ".cc"],
        cmd = "python3 $(location %s) descriptors %s $(OUTS) $(SRCS)" % (_PROTOGEN, name),
        tools = [_PROTOGEN],
        visibility = ["//visibility:private"],
    )
