#!/bin/sh
exec python3 tests/unit/proto/protogen_test.py
