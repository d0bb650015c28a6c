"""Who may use the engine's surface."""

# What an engine user includes is visible to users; the rest to tests alone. A server of
# one's own links the engine from a package under //tools.
USERS = [
    "//benchmarks:__subpackages__",
    "//engine/admin:__subpackages__",
    "//engine/broker:__subpackages__",
    "//engine/network:__subpackages__",
    "//engine/process:__pkg__",
    "//tests:__subpackages__",
    "//tools:__subpackages__",
]
