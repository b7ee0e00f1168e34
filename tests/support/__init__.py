# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests, in all folders of tests; what pytest collects is beside this package."""
