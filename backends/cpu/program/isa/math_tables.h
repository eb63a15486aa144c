/* SPDX-License-Identifier: MIT */
/* Coefficients of erf's polynomials (math_pack.h): interpolation at Chebyshev's points in 100 bits,
 * rounded; for the first segment, whose results are small, of erf(x) / x − 1. A row has one
 * coefficient of all segments. The slope of the last one is larger than that of erf, so that
 * results end at 1. */
#ifndef CPU_PROGRAM_MATH_TABLES_H
#define CPU_PROGRAM_MATH_TABLES_H

_Alignas(64) static const float erf_table[6][32] = {
    {0x0.0p+0f,      0x1.1f5e1ap-3f, 0x1.1af54ep-2f, 0x1.9dd0d2p-2f, 0x1.0a7ef6p-1f, 0x1.3f196ep-1f,
     0x1.6c1c98p-1f, 0x1.91724ap-1f, 0x1.af767ap-1f, 0x1.c6dad2p-1f, 0x1.d8865ep-1f, 0x1.e5768cp-1f,
     0x1.eea556p-1f, 0x1.f4f694p-1f, 0x1.f92d08p-1f, 0x1.fbe61ep-1f, 0x1.fd9ae2p-1f, 0x1.fea422p-1f,
     0x1.ff4048p-1f, 0x1.ff9960p-1f, 0x1.ffcaa8p-1f, 0x1.ffe514p-1f, 0x1.fff2d0p-1f, 0x1.fff9bap-1f,
     0x1.fffd1ap-1f, 0x1.fffeb4p-1f, 0x1.ffff70p-1f, 0x1.ffffc4p-1f, 0x1.ffffe8p-1f, 0x1.fffff6p-1f,
     0x1.fffffcp-1f, 0x1.fffffep-1f},
    {0x1.06eba8p-3f,  0x1.1c62fap+0f,  0x1.0f5d16p+0f,  0x1.f5f0cep-1f,  0x1.c1efcap-1f,
     0x1.86e96ap-1f,  0x1.492e42p-1f,  0x1.0cab62p-1f,  0x1.a911f0p-2f,  0x1.45e99cp-2f,
     0x1.e46530p-3f,  0x1.5ce596p-3f,  0x1.e72372p-4f,  0x1.499d48p-4f,  0x1.b05530p-5f,
     0x1.12ceb4p-5f,  0x1.529b9ep-6f,  0x1.94624ep-7f,  0x1.d4143ap-8f,  0x1.06918cp-8f,
     0x1.1d8318p-9f,  0x1.2ce898p-10f, 0x1.3360ccp-11f, 0x1.305390p-12f, 0x1.2408eap-13f,
     0x1.0f9e1cp-14f, 0x1.e9b5eap-16f, 0x1.abe09ep-17f, 0x1.6a5972p-18f, 0x1.296a72p-19f,
     0x1.d93720p-21f, 0x1.58p-21f},
    {0x1.a9b786p-28f,  -0x1.1c62e0p-3f,  -0x1.0f5cfep-2f,  -0x1.78747ep-2f,  -0x1.c1efaep-2f,
     -0x1.e8a3acp-2f,  -0x1.edc554p-2f,  -0x1.d62be6p-2f,  -0x1.a911f4p-2f,  -0x1.6ea6d8p-2f,
     -0x1.2ebf4ap-2f,  -0x1.dfbbc8p-3f,  -0x1.6d5aacp-3f,  -0x1.0bcfdap-3f,  -0x1.7a4a9ep-4f,
     -0x1.01a1d2p-4f,  -0x1.529ba0p-5f,  -0x1.ada862p-6f,  -0x1.074b46p-6f,  -0x1.37cc9cp-7f,
     -0x1.64e376p-8f,  -0x1.8af0a2p-9f,  -0x1.a6a426p-10f, -0x1.b576cep-11f, -0x1.b60baap-12f,
     -0x1.a864f4p-13f, -0x1.8de15ep-14f, -0x1.6902d2p-15f, -0x1.3d0b64p-16f, -0x1.0d858ap-17f,
     -0x1.bb9df8p-19f, -0x1.617546p-20f},
    {-0x1.81277ap-2f, -0x1.6f5520p-2f, -0x1.3c973cp-2f, -0x1.e106bep-3f, -0x1.2bf538p-3f,
     -0x1.c81090p-5f, 0x1.b6e7b0p-6f,  0x1.7c9d4ap-4f,  0x1.1b613ap-3f,  0x1.4cb3c4p-3f,
     0x1.571cfep-3f,  0x1.4374dap-3f,  0x1.1c2a08p-3f,  0x1.d6632cp-4f,  0x1.7148d2p-4f,
     0x1.143d28p-4f,  0x1.8b0af4p-5f,  0x1.0ea47ep-5f,  0x1.63ef68p-6f,  0x1.c1ec0ep-7f,
     0x1.119d96p-7f,  0x1.407fa4p-8f,  0x1.69cf16p-9f,  0x1.89e12ep-10f, 0x1.9db6d8p-11f,
     0x1.a372e0p-12f, 0x1.9aa3c2p-13f, 0x1.84513ep-14f, 0x1.62cbd8p-15f, 0x1.3949f6p-16f,
     0x1.0b6948p-17f, 0x1.b95d44p-19f},
    {0x1.0189c2p-15f,  0x1.18e186p-4f,   0x1.039228p-3f,   0x1.548fe6p-3f,   0x1.7658e6p-3f,
     0x1.68e4dcp-3f,   0x1.3448dap-3f,   0x1.cc2096p-4f,   0x1.1b7d80p-4f,   0x1.cbcdb2p-6f,
     -0x1.8b7e1ep-8f,  -0x1.f198a8p-6f,  -0x1.6c6d3cp-5f,  -0x1.969aeap-5f,  -0x1.899f78p-5f,
     -0x1.59fee0p-5f,  -0x1.1a269ep-5f,  -0x1.b011f2p-6f,  -0x1.38f0c8p-6f,  -0x1.aef250p-7f,
     -0x1.1b1338p-7f,  -0x1.63b1a2p-8f,  -0x1.ac5212p-9f,  -0x1.ef0b50p-10f, -0x1.12eaccp-10f,
     -0x1.25b868p-11f, -0x1.2e1c6ep-12f, -0x1.2b5ce0p-13f, -0x1.1df184p-14f, -0x1.07688cp-15f,
     -0x1.d43bd6p-17f, -0x1.91ae72p-18f},
    {0x1.cc70a2p-4f,  0x1.aa2714p-4f,  0x1.478290p-4f,  0x1.7445a6p-5f,  0x1.e20120p-8f,
     -0x1.bfceb8p-6f, -0x1.b347c8p-5f, -0x1.12decap-4f, -0x1.1b043cp-4f, -0x1.f5e70ep-5f,
     -0x1.825534p-5f, -0x1.f5957ap-6f, -0x1.e80c36p-7f, -0x1.1c92d8p-9f, 0x1.afcf22p-8f,
     0x1.76a8f4p-7f,  0x1.ac412ap-7f,  0x1.9917c4p-7f,  0x1.5d1a10p-7f,  0x1.11e0e0p-7f,
     0x1.911d4ap-8f,  0x1.14af28p-8f,  0x1.69b48ap-9f,  0x1.c1eef8p-10f, 0x1.0b14f0p-10f,
     0x1.2f501ep-11f, 0x1.4a15dap-12f, 0x1.58b736p-13f, 0x1.59da3ap-14f, 0x1.4dacfep-15f,
     0x1.35d0fep-16f, 0x1.15068ap-17f},
};

#endif
