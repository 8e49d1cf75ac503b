//! Commands that print variables.

use super::class_of;
use crate::risk::RiskClass;

#[test]
fn printing_a_secret_variable_is_judged_like_expanding_it() {
    let secret = "AWS_SECRET_ACCESS_KEY GITHUB_TOKEN PGPASSWORD db_password github_token api_key DB_PASS smtp_pass \
                  MYSQL_PWD LDAP_PW PASS PW";
    let plain = "HOME PATH lang PWD OLDPWD key monkey pass COMPASS BYPASS";
    for (names, class) in [(secret, RiskClass::ReadsSecret), (plain, RiskClass::ReadOnly)] {
        for name in names.split_whitespace() {
            for command in ["echo $", "printenv ", "printenv -0 ", "printenv PATH ", "/usr/bin/printenv "] {
                assert_eq!(class_of(&format!("{command}{name}")).0, class, "{command}{name}");
            }
        }
    }
    assert_eq!(class_of("declare -p GITHUB_TOKEN").0, RiskClass::ReadsSecret);
    assert_eq!(class_of("printenv; env").0, RiskClass::ReadOnly);
}
