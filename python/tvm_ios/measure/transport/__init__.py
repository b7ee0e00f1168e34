# SPDX-License-Identifier: Apache-2.0
"""Transport: the processes and devices that stages run on, and how they are reached."""
