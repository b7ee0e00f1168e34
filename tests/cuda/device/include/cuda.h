// SPDX-License-Identifier: Apache-2.0
// TVM's code includes it and needs nothing of it.
