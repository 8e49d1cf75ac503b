// Opens the session that the address names once the user has signed in: browsers keep this part over the redirect.
if (location.hash.startsWith("#/")) document.forms[0].action += location.hash;
