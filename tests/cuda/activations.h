// SPDX-License-Identifier: MIT
// Codes of the activations.
#pragma once

enum { relu, gelu, silu, hyperbolic, sinus, identity };
