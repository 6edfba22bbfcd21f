/* certificates.h - an authority, one below it, another one, and certificates that they issue. Made
 * when a test runs, so none of them ever gets old. */
#ifndef WEIR_TESTS_CERTIFICATES_H
#define WEIR_TESTS_CERTIFICATES_H

#include "unit/helpers.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

struct identity {
    EVP_PKEY *key;
    X509 *certificate;
};

static struct identity root, middle, leaf, other_root;
static char folder[] = "/tmp/weir-tls-XXXXXX";

struct wish {
    const char *name;
    const char *alternatives; /* such as DNS:a.test,IP:127.0.0.1; null for an authority */
    long from_s;
    long until_s;
    const struct identity *issuer; /* null: itself */
};

static void extend(X509 *certificate, X509 *issuer, int what, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, what, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static struct identity make_identity(struct wish wish)
{
    static long serial;
    struct identity made = {EVP_EC_gen("P-256"), X509_new()};
    X509 *certificate = made.certificate;
    assert_non_null(made.key);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), wish.from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wish.until_s);
    X509_set_pubkey(certificate, made.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)wish.name, -1, -1, 0);
    X509 *issuer = wish.issuer == NULL ? certificate : wish.issuer->certificate;
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    extend(certificate, issuer, NID_basic_constraints,
           wish.alternatives == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    if (wish.alternatives != NULL) {
        extend(certificate, issuer, NID_subject_alt_name, wish.alternatives);
    }
    EVP_PKEY *signer = wish.issuer == NULL ? made.key : wish.issuer->key;
    assert_true(X509_sign(certificate, signer, EVP_sha256()) > 0);
    return made;
}

static void free_identity(struct identity *identity)
{
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
}

static struct identity make_leaf(const char *alternatives)
{
    return make_identity((struct wish){"leaf", alternatives, -3600, 3600, &root});
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_pem(const char *name, const struct identity *identity)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, identity->certificate), 1);
    fclose(file);
}

static int make_certificates(void **test_state)
{
    (void)test_state;
    assert_non_null(mkdtemp(folder));
    root = make_identity((struct wish){"root", NULL, -3600, 3600, NULL});
    other_root = make_identity((struct wish){"other root", NULL, -3600, 3600, NULL});
    middle = make_identity((struct wish){"middle", NULL, -3600, 3600, &root});
    leaf = make_leaf("DNS:a.test,DNS:*.b.test,IP:127.0.0.1,IP:::1");
    write_pem("root", &root);
    write_pem("other", &other_root);
    write_pem("middle", &middle);
    return 0;
}

static int remove_certificates(void **test_state)
{
    (void)test_state;
    static const char *const names[] = {"root", "other", "middle", "leaf", "bad"};
    struct identity *all[] = {&root, &other_root, &middle, &leaf};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        free_identity(all[i]);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        unlink(path_of(names[i]));
    }
    return rmdir(folder);
}

#endif
